"""The papers behind the methods, as reports cite them."""

from typing import NamedTuple


class Reference(NamedTuple):
    """A paper and its address."""

    text: str
    url: str


GUIDE = Reference(
    "The Hitchhiker’s Guide to Prior-Shift Adaptation, 2021", "https://arxiv.org/abs/2106.11695"
)
SAERENS = Reference(
    "Saerens, Latinne and Decaestecker, 2002", "https://doi.org/10.1162/089976602753284446"
)
SULC = Reference("Sulc and Matas, 2018", "https://arxiv.org/abs/1805.08235")
LIPTON = Reference("Lipton, Wang and Smola, 2018", "https://arxiv.org/abs/1802.03916")
AZIZZADENESHELI = Reference("Azizzadenesheli et al., 2019", "https://arxiv.org/abs/1903.09734")
TIAN = Reference("Tian, Zhang and Zhao, 2023", "https://arxiv.org/abs/2305.19123")
YE = Reference(
    "Ye, Tsuchida, Petersson and Barnes, 2024",
    "https://openaccess.thecvf.com/content/WACV2024/papers/Ye_Label_Shift_Estimation_for_Class-"
    "Imbalance_Problem_A_Bayesian_Approach_WACV_2024_paper.pdf",
)
ALEXANDARI = Reference(
    "Alexandari, Kundaje and Shrikumar, 2020", "https://arxiv.org/abs/1901.06852"
)
ANGELOPOULOS = Reference(
    "Angelopoulos, Duchi and Zrnic, 2023 (PPI++)", "https://arxiv.org/abs/2311.01453"
)
GONZALEZ = Reference("González, Moreo and Sebastiani, 2024", "https://arxiv.org/abs/2310.04565")
