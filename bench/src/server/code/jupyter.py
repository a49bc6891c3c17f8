"""Runs code in Jupyter kernels, one turn for each line of input, and says how many seconds it took."""

import sys
import time

import ipykernel
import jupyter_client


def start():
    manager = jupyter_client.KernelManager(kernel_name="python3")
    manager.start_kernel()
    client = manager.client()
    client.start_channels()
    client.wait_for_ready(timeout=60)
    return manager, client


def execute(client, code, kind):
    """Until the reply, and what it printed or gave, were received."""
    seen = []

    def output(message):
        if message["msg_type"] == kind:
            seen.append(message)

    client.execute_interactive(code, output_hook=output, timeout=60)
    if not seen:
        raise SystemExit(f"{code} gave nothing")


def stop(manager, client):
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def main():
    print(f"jupyter_client {jupyter_client.__version__}, ipykernel {ipykernel.__version__}", flush=True)
    kept = start()
    for line in sys.stdin:
        word = line.strip()
        if word == "end":
            break
        begun = time.perf_counter()
        if word == "warm":
            execute(kept[1], "1+1", "execute_result")
        else:
            fresh = start()
            execute(fresh[1], "print(1)", "stream")
            stop(*fresh)
        print(time.perf_counter() - begun, flush=True)
    stop(*kept)


main()
