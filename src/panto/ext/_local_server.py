"""The process that runs the local model's server. A script: `local` starts it and nothing imports it.

Law: one line of JSON comes in (what to start), one goes out (`url`, or `kind` and `words` of what failed), and when
standard input ends, so does the process, at once. It uses nothing of panto, so it starts as fast as Python does.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import Any


def main() -> None:
    """Serve until standard input ends."""
    reply_to = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what native code prints shall not be taken for the reply
    order = json.loads(sys.stdin.readline())
    server = None
    try:
        server = _serve(order)
        reply = {"url": server.listening_address}
    except ImportError as error:
        reply = {"kind": "import", "words": str(error)}
    except Exception as error:
        reply = {"kind": "start", "words": str(error)}
    print(json.dumps(reply), file=reply_to, flush=True)
    while server is not None and sys.stdin.read(1024):
        pass
    os._exit(0)  # a running answer is nobody's any more; the engine's own end would wait for it


def _serve(order: dict[str, Any]) -> Any:
    sys.path.insert(0, order["engine"])  # the one that the asking process would import
    xllamacpp: Any = importlib.import_module("xllamacpp")
    del sys.path[0]

    params = xllamacpp.CommonParams()
    params.model.path = order["weights"]
    params.model_alias = {order["alias"]}
    params.hostnames = ["127.0.0.1"]
    params.port = 0  # a free one
    params.api_keys = [order["key"]]  # other users of this machine, and web pages in its browsers, stay out
    params.endpoint_slots = False  # it would show what was asked
    params.n_ctx = order["context_window"]
    params.n_parallel = 1
    params.n_predict = order["context_window"]  # an end to every answer, also for a client that asks for none
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = order["threads"]
    params.cache_prompt = False  # with it on, a greedy answer depends on what was asked before
    params.warmup = False
    params.verbosity = -1
    params.sampling.penalty_repeat = order["repeat_penalty"]
    if order["greedy"]:
        params.sampling.temp = 0.0
        params.sampling.seed = 1
    if order["chat_template"] is not None:
        params.chat_template = order["chat_template"]
    return xllamacpp.Server(params)


if __name__ == "__main__":
    main()
