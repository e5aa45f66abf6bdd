# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A server for a decoder: answers a POST of JSON, a "prompt" or "messages" and options such as "tokens", by a stream
of text. Requests share a pass over the weights per token. Needs uvicorn.

usage: python serve.py FOLDER
       curl -N localhost:8000 -d '{"prompt": "In the beginning", "tokens": 40}'
"""
import asyncio
import json
import sys
import threading

import mpc


class App:
    """An ASGI application. A thread steps the batch."""

    def __init__(self, decoder):
        self.batch = decoder.batch()
        threading.Thread(target=self.decode, daemon=True).start()

    def decode(self):
        while self.batch.wait():
            self.batch.step()

    async def __call__(self, scope, receive, send):
        assert scope["type"] == "http"
        body, part = b"", {"more_body": True}
        while part.get("more_body"):
            part = await receive()
            body += part.get("body", b"")
        loop, pieces = asyncio.get_running_loop(), asyncio.Queue()
        try:
            options = json.loads(body)
            request = self.batch.submit(options.pop("messages", None) or options.pop("prompt"), **options,
                                        receiver=lambda piece: loop.call_soon_threadsafe(pieces.put_nowait, piece))
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            await send({"type": "http.response.start", "status": 400, "headers": [(b"content-type", b"text/plain")]})
            return await send({"type": "http.response.body", "body": f"{error}\n".encode()})
        client = asyncio.create_task(receive())  # Returns when the client has gone.
        client.add_done_callback(lambda _: request.cancel())
        await send({"type": "http.response.start", "status": 200,
                    "headers": [(b"content-type", b"text/plain; charset=utf-8")]})
        while (piece := await pieces.get()) is not None:
            await send({"type": "http.response.body", "body": str(piece).encode(), "more_body": True})
        client.cancel()
        await send({"type": "http.response.body"})


if __name__ == "__main__":
    import uvicorn

    uvicorn.run(App(mpc.Decoder.from_pretrained(sys.argv[1], slots=8)), port=8000)
