# SPDX-License-Identifier: Apache-2.0
"""A TCP proxy that makes a server as far away as a bucket: each answer begins 30 ± 20 ms late. Runs as a process of its own.

    bench/_far.py LISTEN_PORT SERVER_PORT [MEAN_MS [SPREAD_MS]]
"""

import asyncio
import random
import sys


async def pipe_there(reader, writer, state):
    """Client to server: the next bytes of the server are a new answer."""
    while data := await reader.read(1 << 18):
        state["late"] = True
        writer.write(data)
        await writer.drain()
    writer.close()


async def pipe_back(reader, writer, state, mean, spread):
    while data := await reader.read(1 << 18):
        if state["late"]:
            state["late"] = False
            await asyncio.sleep(max(0, mean + random.uniform(-spread, spread)) / 1000)
        writer.write(data)
        await writer.drain()
    writer.close()


async def serve(listen, port, mean, spread):
    async def accept(reader, writer):
        there = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
        state = {"late": True}
        try:
            await asyncio.gather(pipe_there(reader, there[1], state), pipe_back(there[0], writer, state, mean, spread))
        except OSError:
            pass
        finally:
            writer.close()
            there[1].close()

    async with await asyncio.start_server(accept, "127.0.0.1", listen, limit=1 << 20, backlog=512) as server:
        await server.serve_forever()


if __name__ == "__main__":
    numbers = [float(x) for x in sys.argv[3:]]
    asyncio.run(serve(int(sys.argv[1]), int(sys.argv[2]), *(numbers + [30, 20][len(numbers):])))
