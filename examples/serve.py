"""Serve an adapter over HTTP, with the standard library alone beside priorshift.

    python examples/serve.py adapter.json 8000
    curl --data '{"y_proba": [[0.2, 0.8]]}' http://127.0.0.1:8000

Each request is adapted as a whole; what is wrong with it is answered with code 400.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import priorshift as ps

MOST_BYTES = 10_000_000


def service(adapter: ps.Adapter, port: int) -> ThreadingHTTPServer:
    class Adapt(BaseHTTPRequestHandler):
        def do_POST(self):
            try:
                size = int(self.headers.get("Content-Length", 0))
                if size > MOST_BYTES:
                    raise ValueError(f"send at most {MOST_BYTES} bytes at a time.")
                y_proba = json.loads(self.rfile.read(size))["y_proba"]
                self.answer(
                    200,
                    classes=adapter.classes.tolist(),
                    adapted=adapter(y_proba).tolist(),
                    decided=adapter.decide(y_proba).tolist(),
                )
            except (ValueError, KeyError, TypeError) as error:
                self.answer(400, error=str(error))

        def answer(self, code, **contents):
            body = json.dumps(contents).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return ThreadingHTTPServer(("127.0.0.1", port), Adapt)


if __name__ == "__main__":
    service(ps.Adapter.from_json(Path(sys.argv[1])), int(sys.argv[2])).serve_forever()
