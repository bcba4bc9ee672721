"""
Sites that differ, and days that change
=======================================

One classifier serves many sites for a long time. Every site can have its own priors, and a monitor
follows them from day to day and raises an alarm when they change. Nothing is labelled.
"""

# %%
# Split the target into sites that differ, one of them with only 12 rows. Every site gets its own
# estimate. The small one stays close to the others, because 12 rows do not support more.

import numpy as np

import priorshift as ps
from priorshift.datasets import load_fashion_lt
from priorshift.plotting import GroupsDisplay, MonitorDisplay

data = load_fashion_lt()
given = {"source_priors": data.source_priors, "classes": data.classes}
rng = np.random.default_rng(0)
warm = np.isin(data.y_target, ["Coat", "Shirt"])
in_north = rng.random(warm.size) < np.where(warm, 0.9, 0.4)
site = np.where(in_north, "north", "south").astype("U8")
site[rng.choice(site.size, 12, replace=False)] = "new shop"

scml = ps.SCML().fit(data.y_proba_val, data.y_val, **given)
found = ps.estimate_groups(scml, data.y_proba_target, site)
print(found)
GroupsDisplay.from_estimates(found)

# %%
# Now consider twelve summer days with the class shares of validation, followed by six winter days.
# The monitor sees only predictions.

rows = rng.permutation(data.y_val.size)
validation, summer = rows[:1800], np.array_split(rows[1800:], 12)
winter = np.array_split(rng.permutation(data.y_target.size)[:960], 6)
days = [data.y_proba_val[day] for day in summer] + [data.y_proba_target[day] for day in winter]

monitor = ps.PriorMonitor(random_state=0)
monitor.fit(data.y_proba_val[validation], data.y_val[validation], **given)
for number, day in enumerate(days, 1):
    step = monitor.update(day, time=f"2026-09-{number:02}")
    if step.raised:
        print(f"alarm: {step}")

# %%
# As long as nothing changes, the probability that an alarm is ever raised is at most 5 %.

MonitorDisplay.from_monitor(monitor)
