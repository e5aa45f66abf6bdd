# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Continuous batching: requests that come and go, prefix reuse, chunked prefill, threads, an ASGI server."""

import asyncio
import importlib.util
import json
import random
import threading
import time

import mpc
import pytest

from conftest import INPUTS

MODEL = INPUTS / "decoder" / "model.onnx"
EXAMPLE = INPUTS.parents[1] / "docs" / "examples" / "serve.py"
CHUNK = 8


class Letters:
    """A tokenizer whose tokens are letters from "0" on."""

    class Encoding:
        def __init__(self, ids):
            self.ids = ids

    def encode(self, text, add_special_tokens=True):
        return self.Encoding([ord(letter) - ord("0") for letter in text])

    def decode(self, ids):
        return "".join(chr(ord("0") + token) for token in ids)


class Interrupted:
    """A sampler during whose work the user types Ctrl-C."""

    def draw(self, logits):
        raise KeyboardInterrupt


@pytest.fixture(scope="module")
def decoder():
    return mpc.Decoder(MODEL, policy="float32", capacity=64, chunk=CHUNK, slots=4, tokenizer=Letters(),
                       chat_template=lambda messages, **_: "".join(each["content"] for each in messages))


def alone(decoder, prompt, **options):
    return list(decoder.generate(prompt, **options))


def collect(batch):
    """Pieces of each request until all are finished."""
    found = {}
    for request, piece in batch:
        assert found.setdefault(request, [])[-1:] != [None]
        found[request].append(piece)
    assert all(pieces[-1] is None for pieces in found.values())
    return {request: pieces[:-1] for request, pieces in found.items()}


def test_requests_are_independent(decoder):
    numbers = random.Random(2)
    prompts = [[numbers.randrange(61) for _ in range(numbers.randrange(1, 30))] for _ in range(11)]
    options = [{"tokens": 1 + i % 7 * 4, "end": (40, 13), "temperature": i % 3, "seed": i, "top_k": i % 2 * 9}
               for i in range(11)]
    batch = decoder.batch()
    requests = [batch.submit(prompt, **each) for prompt, each in zip(prompts[:6], options)]
    # The others come while these run.
    found = [batch.step() for _ in range(5)]
    requests += [batch.submit(prompt, **each) for prompt, each in zip(prompts[6:], options[6:])]
    assert batch.pending == len(requests) - sum(request.is_finished for request in requests)
    found += [batch.step() for _ in iter(lambda: batch.pending, 0)]
    for request, prompt, each in zip(requests, prompts, options):
        wanted = alone(decoder, prompt, **each)
        assert request.tokens == request.result() == wanted
        assert [piece for step in found for of, piece in step if of is request] == [*wanted, None]
        assert request.finish_reason == ("end" if wanted[-1] in (40, 13) else "length")
    assert batch.step() == [] and batch.pending == 0


def test_a_step_feeds_one_chunk(decoder):
    batch = decoder.batch()
    first = batch.submit([1, 2, 3], tokens=30)
    batch.step()
    second = batch.submit([5] * (3 * CHUNK + 1), tokens=2)
    counts = []
    while not second.tokens:
        batch.step()
        counts.append(len(first.tokens))
    # Four chunks; after each the first request takes a step.
    assert counts == [3, 4, 5, 6]
    collect(batch)
    assert first.tokens == alone(decoder, [1, 2, 3], tokens=30)


def test_prefixes_are_reused(decoder):
    numbers = random.Random(5)
    shared = [numbers.randrange(61) for _ in range(2 * CHUNK + 3)]
    batch = decoder.batch(prefixes=1)
    first = batch.submit([*shared, 1, 2], tokens=20)
    for _ in range(4):
        batch.step()
    # Whole chunks of a running sequence, of which the last token is computed again.
    running = [batch.submit(prompt, tokens=9) for prompt in ([*shared, 3], shared[:2 * CHUNK], shared[:CHUNK + 1],
                                                             [shared[0], 60, *shared])]
    collect(batch)
    assert [request.reused for request in (first, *running)] == [0, 2 * CHUNK, CHUNK, CHUNK, 0]
    # The last finished one is kept, and the kept one is replaced by one that starts with it.
    last = batch.submit([shared[0], 60, *shared, 4], tokens=9)
    collect(batch)
    gone = batch.submit(shared, tokens=9)
    collect(batch)
    assert (last.reused, gone.reused) == (2 * CHUNK, 0)
    for request in (first, *running, last, gone):
        assert request.tokens == alone(decoder, request.prompt, tokens=len(request.tokens))


def test_conversations_reuse_their_prefix(decoder):
    batch, said, reused = decoder.batch(), [], []
    for turn in range(4):
        said = [*said, {"role": "user", "content": f"{turn}24680"}]
        request = batch.submit(said, tokens=8)
        collect(batch)
        reused.append(request.reused)
        assert request.text == "".join(alone(decoder, said, tokens=8))
        said = [*said, {"role": "assistant", "content": request.text}]
    assert reused == [0, 0, 2 * CHUNK, 4 * CHUNK]


def test_kept_sequences_are_bounded(decoder):
    batch = decoder.batch(slots=2, prefixes=2)
    for i in range(6):
        batch.submit([i] * (CHUNK + 1), tokens=2)
    collect(batch)
    again = [batch.submit([i] * (CHUNK + 1), tokens=1) for i in (5, 4, 3)]
    collect(batch)
    assert [request.reused for request in again] == [CHUNK, CHUNK, 0]
    assert len(batch._prefixes._kept) == 2


def test_requests_are_cancelled(decoder):
    batch = decoder.batch(slots=2)
    requests = [batch.submit([i + 1] * 20, tokens=30) for i in range(4)]
    for _ in range(4):
        batch.step()
    running, filling, waiting, other = requests
    for request in (running, filling, waiting):
        request.cancel()
    found = batch.step()
    assert {request for request, piece in found if piece is None} == {running, filling, waiting}
    collect(batch)
    assert [request.finish_reason for request in requests] == ["cancelled"] * 3 + ["length"]
    assert running.tokens == alone(decoder, running.prompt, tokens=len(running.tokens)) and running.tokens
    assert other.tokens == alone(decoder, other.prompt, tokens=30)
    other.cancel()
    assert batch.step() == [] and other.finish_reason == "length"


def test_text_and_stop_strings(decoder):
    text = "".join(alone(decoder, "12345", tokens=12))
    batch = decoder.batch()
    plain, stopped, tokens = (batch.submit("12345", tokens=12), batch.submit("12345", tokens=12, stop=text[3:5]),
                              batch.submit([1, 2, 3, 4, 5], tokens=12, stop=[text[3:5]]))
    pieces = collect(batch)
    assert "".join(pieces[plain]) == plain.text == text and len(pieces[plain]) == 12
    assert stopped.text == text[:3] and stopped.finish_reason == "stop" and len(stopped.tokens) == 5
    assert tokens.result() == plain.tokens[:5] and tokens.text == ""


def test_all_prompts_are_those_alone(decoder):
    prompts = ["12345", [7, 8], [9], "1" * 30, [{"role": "user", "content": "99"}]]
    wanted = ["".join(pieces) if not isinstance(prompt, list) or isinstance(prompt[0], dict) else pieces
              for prompt in prompts for pieces in [alone(decoder, prompt, tokens=12, end=40)]]
    assert decoder.generate_all(prompts, tokens=12, end=40) == wanted


def test_any_thread_submits(decoder):
    batch, found, errors = decoder.batch(), {}, []

    def ask(number):
        try:
            for turn in range(5):
                request = batch.submit([number, turn, *range(number)], tokens=3 + turn)
                if (number + turn) % 4 == 0:
                    request.cancel()
                found[number, turn] = request
        except Exception as error:  # noqa: BLE001
            errors.append(error)

    def work():
        while batch.wait():
            batch.step()

    worker = threading.Thread(target=work)
    worker.start()
    threads = [threading.Thread(target=ask, args=(number,)) for number in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    while batch.pending:
        pass
    late = batch.submit([1], tokens=None)
    batch.close()
    worker.join(60)
    assert not worker.is_alive() and not errors and late.finish_reason in ("cancelled", "length")
    for (number, turn), request in found.items():
        wanted = alone(decoder, [number, turn, *range(number)], tokens=3 + turn)
        assert request.tokens == wanted or request.finish_reason == "cancelled" and (number + turn) % 4 == 0
    with pytest.raises(mpc.InvalidArgument, match="a batch that is closed"):
        batch.submit([1])
    assert not batch.wait(0)


def test_says_what_is_wrong(decoder):
    batch = decoder.batch()
    for options, error in (
            ({"prompt": []}, "needs at least one token"), ({"prompt": [1, 61]}, "token 61 at position 1 is outside"),
            ({"prompt": [1] * 65}, "65 tokens and 1 more need 65 rows of the KV cache, which has 64; give a shorter"),
            ({"prompt": [1] * 60, "tokens": 6}, "60 tokens and 6 more need 65 rows of the KV cache, which has 64; "
                                                "generate at most 5 tokens"),
            ({"prompt": [1], "tokens": 0}, "tokens: is 0"), ({"prompt": [1], "stop": [""]}, "of at least one character"),
            ({"prompt": [1], "stop": [3]}, "of at least one character"), ({"prompt": [1], "min_p": 2}, "min-p is 2"),
            ({"prompt": [1], "repetition_penalty": 0}, "repetition penalty is 0"),
            ({"prompt": [1], "variables": {"a": 1}}, "the prompt is no list of messages")):
        with pytest.raises(mpc.InvalidArgument, match=error):
            batch.submit(**options)
    message = [{"role": "user", "content": "1"}]
    for variables, error in (({"messages": []}, "have the name 'messages'"), ({1: 2}, "must be a mapping"),
                             ([1], "must be a mapping")):
        with pytest.raises(mpc.InvalidArgument, match=f"variables: {error}"):
            batch.submit(message, variables=variables)
    for prompt in (5, [1, 2.5], [1, "2"], {"role": "user"}, None):
        with pytest.raises(mpc.InvalidArgument, match="prompt: must be a text, token ids or messages"):
            batch.submit(prompt)
    with pytest.raises(TypeError, match="'temprature' is no option of text generation; options are tokens, temp"):
        batch.submit([1], temprature=1)
    with pytest.raises(mpc.InvalidArgument, match="5 slots for a batch, but has from 1 to the 4"):
        decoder.batch(slots=5)
    with pytest.raises(mpc.InvalidArgument, match="prefixes: is -1"):
        decoder.batch(prefixes=-1)
    assert batch.pending == 0
    # As many tokens as fit.
    assert len(alone(decoder, [1] * 60)) == 5 and len(alone(decoder, [1] * 60, tokens=None)) == 5


def test_an_error_ends_its_request_only(decoder):
    batch = decoder.batch()
    broken, other = batch.submit([1, 2], tokens=9), batch.submit([3], tokens=9)

    class Broken:
        def draw(self, logits):
            raise mpc.InvalidArgument("sampling", "the logit of token 1 is NaN")

    batch.step()
    batch.step()
    broken._sampler = Broken()
    collect(batch)
    assert broken.finish_reason == "error" and other.tokens == alone(decoder, [3], tokens=9)
    with pytest.raises(mpc.InvalidArgument, match="is NaN"):
        broken.result()


def test_kept_sequences_make_room(decoder):
    batch = decoder.batch()
    first = batch.submit([1] * (CHUNK + 1), tokens=2)
    collect(batch)
    full = [2]

    class Full:
        def __getattr__(self, name):
            return getattr(decoder._made, name)

        def start(self):
            if full[0]:
                full[0] -= 1
                raise mpc.ResourceExhausted("cache", "does not fit in memory")
            return decoder._made.start()

    batch._decoder = Full()
    refused, other = batch.submit([2] * CHUNK, tokens=2), batch.submit([3], tokens=2)
    full[0] = 2
    collect(batch)
    # Freeing the kept sequence was not enough for the first one.
    assert refused.finish_reason == "error" and isinstance(refused.error, mpc.ResourceExhausted)
    assert other.tokens == alone(decoder, [3], tokens=2)
    again = batch.submit(first.prompt, tokens=2)
    collect(batch)
    assert again.reused == 0 and again.tokens == first.tokens


def test_an_error_of_a_receiver_ends_its_request(decoder):
    batch, pieces = decoder.batch(), []
    whole = batch.submit([1], tokens=9, receiver=pieces.append)
    broken = batch.submit([2], tokens=9, receiver=lambda piece: 1 // 0)
    collect(batch)
    assert pieces == [*whole.tokens, None] and len(whole.tokens) == 9
    assert broken.finish_reason == "cancelled" and len(broken.tokens) < 4
    with pytest.raises(ZeroDivisionError):
        broken.result()


def test_an_interrupt_ends_requests_that_have_begun(decoder):
    batch = decoder.batch(slots=1)
    begun, waiting = batch.submit([1, 2], tokens=9), batch.submit([3], tokens=9)
    batch.step()
    begun._sampler = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        batch.step()
    assert begun.finish_reason == "error" and "was interrupted" in str(begun.error)
    collect(batch)
    assert waiting.tokens == alone(decoder, [3], tokens=9)


def test_every_receiver_gets_every_piece(decoder):
    batch, pieces, interrupts = decoder.batch(), [[], []], [KeyboardInterrupt]

    def interrupted(piece):
        pieces[0].append(piece)
        if interrupts and batch.pending == 2 and len(pieces[0]) == 3:
            raise interrupts.pop()

    first = batch.submit([1], tokens=9, receiver=interrupted)
    second = batch.submit([2], tokens=9, receiver=pieces[1].append)
    with pytest.raises(KeyboardInterrupt):
        collect(batch)
    batch.step()
    # A step that is interrupted while it computes ends the requests, after the tokens that it has found.
    second._sampler = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        batch.step()
    assert pieces == [[*request.tokens, None] for request in (first, second)]
    assert len(first.tokens) == len(second.tokens) + 2 and batch.pending == 0
    # The requests' last tokens are returned by the next step.
    assert batch.wait(0) and [(first, None), (second, None)] == [each for each in batch if each[1] is None]
    assert not batch.wait(0) and batch.step() == []


def test_a_tokenizer_fails_for_its_request_only(decoder):
    batch = decoder.batch()
    for method in ("push", "finish"):
        broken, other = batch.submit("12", tokens=9), batch.submit("3", tokens=9)

        def fail(*_):
            raise KeyError("no such token")

        setattr(broken._stream, method, fail)
        pieces = collect(batch)
        assert broken.finish_reason == "error" and other.result() == "".join(alone(decoder, "3", tokens=9))
        assert "".join(pieces[broken]) == broken.text
        with pytest.raises(KeyError, match="no such token"):
            broken.result()


def test_receivers_do_not_step(decoder):
    batch = decoder.batch()
    request = batch.submit([1], tokens=9, receiver=lambda _: batch.step())
    collect(batch)
    with pytest.raises(mpc.InvalidArgument, match="was stepped by a receiver of the same batch; receivers may submit"):
        request.result()


def test_endless_sequences_share_prefixes(decoder):
    rolling = mpc.Decoder(MODEL, policy="float32", capacity=40, chunk=CHUNK, slots=2, endless=True)
    batch = rolling.batch()
    prompt = [7] * CHUNK + [8] * CHUNK
    first = batch.submit([*prompt, 1], tokens=90)
    for _ in range(6):
        batch.step()
    second = batch.submit([*prompt, 2], tokens=4)
    collect(batch)
    # The first one has left its cache by now.
    third = batch.submit([*prompt, 2], tokens=4)
    collect(batch)
    assert (second.reused, third.reused) == (2 * CHUNK, 2 * CHUNK)
    for request in (first, second, third):
        assert request.tokens == alone(rolling, request.prompt, tokens=len(request.tokens))


# ---------------------------------------------------------------- docs/examples/serve.py

class SlowBatch:
    """A batch whose steps take so long that a client may leave between them."""

    def __init__(self, batch):
        self.submit, self.wait, self.close, self._step = batch.submit, batch.wait, batch.close, batch.step

    def step(self):
        time.sleep(0.01)
        return self._step()


class SlowDecoder:
    def __init__(self, decoder):
        self.batch = lambda: SlowBatch(decoder.batch())


def test_the_server_streams(decoder):
    spec = importlib.util.spec_from_file_location("serve", EXAMPLE)
    serve = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(serve)
    app = serve.App(SlowDecoder(decoder))

    async def post(body, disconnect_after=None):
        sent, gone = [], asyncio.Event()

        async def receive():
            if not sent and not received:
                received.append(True)
                return {"type": "http.request", "body": body, "more_body": False}
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message):
            sent.append(message)
            if disconnect_after is not None and len(sent) > disconnect_after:
                gone.set()

        received = []
        await app({"type": "http", "method": "POST", "path": "/"}, receive, send)
        return sent

    async def conversations():
        asked = [{"messages": [{"role": "user", "content": "12345"}], "tokens": 12}, {"prompt": "78", "tokens": 5},
                 {"prompt": "9", "tokens": 60}]
        return await asyncio.gather(*(post(json.dumps(each).encode()) for each in asked),
                                    post(json.dumps({"prompt": "9", "tokens": 60}).encode(), disconnect_after=2),
                                    post(json.dumps({"prompt": "9", "tokens": 70}).encode()), post(b"{"))

    try:
        *answers, left, refused, malformed = asyncio.run(conversations())
    finally:
        app.batch.close()
    wanted = ["".join(alone(decoder, prompt, tokens=tokens)) for prompt, tokens in (("12345", 12), ("78", 5), ("9", 60))]
    for sent, text in zip(answers, wanted):
        assert sent[0]["type"] == "http.response.start" and sent[0]["status"] == 200
        assert b"".join(each.get("body", b"") for each in sent[1:]).decode() == text
        assert len(sent) > 4 and not sent[-1].get("more_body")
    assert len(left) < 50
    for sent, error in ((refused, "KV cache"), (malformed, "property name")):
        assert sent[0]["status"] == 400 and error in sent[1]["body"].decode()
