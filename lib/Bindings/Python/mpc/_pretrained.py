# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What stands beside a model's weights in folders of transformers and in GGUF files: tokenizer, chat template, end
tokens and sampling defaults."""

from __future__ import annotations

import errno
import json
import os
import pathlib
import re
import stat
import sys
import warnings
from dataclasses import dataclass, field
from typing import Any

from . import _gguf
from ._chat_template import ChatTemplate
from ._errors import InvalidArgument, ModelWarning, NotFound
from ._prompts import parse_tokenizer
from ._sampling import Sampling
from ._text import printable

# Largest configuration file and tokenizer, in bytes.
_LARGEST_FILE, _LARGEST_TOKENIZER = 16 << 20, 256 << 20
# Links in the Hugging Face hub's download cache, from the folder `snapshots/REVISION`.
_BLOB = re.compile(r"\.\./\.\./blobs/(?!\.\.?$)[^/]+", re.DOTALL)
# Default capacity of the KV cache, in tokens; models of very long texts need not use their maximum.
_USUAL_CAPACITY = 2048
_LENGTHS = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "max_sequence_length")
# Options of generation_config.json that change tokens, but that mpc does not have, and the values without effect.
_OTHER_OPTIONS: dict[str, tuple[Any, ...]] = {
    "bad_words_ids": (), "begin_suppress_tokens": (), "diversity_penalty": (0.0,), "epsilon_cutoff": (0.0,),
    "eta_cutoff": (0.0,), "exponential_decay_length_penalty": (), "forced_bos_token_id": (), "forced_eos_token_id": (),
    "guidance_scale": (1.0,), "min_length": (0,), "min_new_tokens": (0,), "no_repeat_ngram_size": (0,),
    "num_beams": (1,), "penalty_alpha": (0.0,), "sequence_bias": (), "suppress_tokens": (), "top_h": (),
    "typical_p": (1.0,),
}


@dataclass
class Pretrained:
    """What `mpc.Decoder` needs of a model."""
    model: str
    tokenizer: Any = None
    chat_template: ChatTemplate | None = None
    # Maximum length of a text, in tokens; None if the model does not have it.
    longest: int | None = None
    defaults: dict[str, Any] = field(default_factory=dict)

    @property
    def capacity(self) -> int:
        """Default number of rows of the KV cache."""
        return min(self.longest or _USUAL_CAPACITY, _USUAL_CAPACITY)

    def options(self) -> dict[str, Any]:
        """Arguments of `mpc.Decoder` besides the model and the capacity."""
        return {"tokenizer": self.tokenizer, "chat_template": self.chat_template, "defaults": self.defaults}


def read(given: str | os.PathLike[str]) -> Pretrained:
    """Reads the files beside a model, but not the model. Raises `mpc.NotFound` if there is no model,
    `mpc.InvalidArgument` if a file is malformed."""
    path = pathlib.Path(given)
    found = Pretrained(str(_model_of(path)))
    if path.suffix == ".gguf":
        _read_gguf(found)
        return found
    folder = path if path.is_dir() else path.parent
    data = _read_file(folder / "tokenizer.json", _LARGEST_TOKENIZER)
    if data is not None:
        found.tokenizer = parse_tokenizer(str(folder / "tokenizer.json"), data)
    config = _read_json(folder / "config.json")
    lengths = [_whole(number, folder / "config.json", key) for part in (config, config.get("text_config") or {})
               for key, number in _mapping(part, folder / "config.json").items()
               if key in _LENGTHS and number is not None]
    if lengths:
        found.longest = lengths[0]
    names = _read_json(folder / "tokenizer_config.json")
    special = {**_texts(_read_json(folder / "special_tokens_map.json")), **_texts(names)}
    found.chat_template = _template(folder, names, special)
    generation = _read_json(folder / "generation_config.json")
    found.defaults = _sampling(generation, folder / "generation_config.json")
    try:
        Sampling().with_options(found.defaults).sampler(())
    except InvalidArgument as error:
        raise InvalidArgument(str(folder / "generation_config.json"), f"has an invalid option: {error}") from None
    found.defaults["end"] = _ends(folder, generation, config, special.get("eos_token"), found.tokenizer)
    return found


def _read_gguf(found: Pretrained) -> None:
    """Reads the metadata of a GGUF file, which has everything in it."""
    metadata = _gguf.Metadata(found.model)
    found.tokenizer = _gguf.tokenizer(metadata, found.model)
    found.longest = _gguf.capacity(metadata)
    found.defaults["end"] = _gguf.ends(metadata)
    template = metadata.get("tokenizer.chat_template", str)
    if template is not None:
        found.chat_template = ChatTemplate(found.model, {"default": template}, _gguf.special_tokens(metadata))


def _model_of(path: pathlib.Path) -> pathlib.Path:
    if path.is_file():
        return path
    if not path.is_dir():
        is_name = len(path.parts) == 2 and not path.parent.exists()
        remedy = f"; hf download {path} --local-dir FOLDER fetches a model of the Hugging Face hub" if is_name else ""
        raise NotFound(str(path), f"is no file or folder{remedy}")
    if any(path.glob("*.safetensors")) or (path / "model.safetensors.index.json").is_file():
        return path
    if (path / "model.onnx").is_file():
        return path / "model.onnx"
    remedy = "; save_pretrained of transformers converts the weights of .bin files" if any(path.glob("*.bin")) else ""
    raise NotFound(str(path), f"has no model: neither weights in .safetensors files nor model.onnx{remedy}")


def _open_inside(path: pathlib.Path) -> int:
    """Opens a file of a model's folder. Of symbolic links, which may lead out of the folder, only those of the hub's
    cache are followed."""
    # O_NONBLOCK: opening a FIFO would wait for its writer.
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW
    try:
        return os.open(path, flags)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
    target = os.readlink(path)
    if not _BLOB.fullmatch(target):
        raise InvalidArgument(str(path), f"is a symbolic link to '{printable(target)}', but only links to "
                              "'../../blobs/NAME' are followed; copy the file into the folder")
    return os.open(path.parent / target, flags)


def _read_file(path: pathlib.Path, most: int) -> bytes | None:
    """Returns the bytes of a file in a model's folder; None without a file."""
    if not os.path.lexists(path):
        return None
    try:
        with open(path, "rb", opener=lambda *_: _open_inside(path)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise InvalidArgument(str(path), "is not a regular file")
            data = file.read(most + 1)
    except OSError as error:
        raise NotFound(str(path), f"cannot be read: {error.strerror}") from None
    if len(data) > most:
        raise InvalidArgument(str(path), f"has more than {most >> 20} MiB, which no such file has")
    return data


def _read_json(path: pathlib.Path) -> dict[str, Any]:
    """Returns the object in a file; empty without a file."""
    data = _read_file(path, _LARGEST_FILE)
    if data is None:
        return {}
    try:
        return _mapping(json.loads(data), path)
    except (ValueError, RecursionError) as error:
        if isinstance(error, InvalidArgument):
            raise
        raise InvalidArgument(str(path), f"is not JSON: {printable(str(error))}") from None


def _mapping(value: Any, path: pathlib.Path) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidArgument(str(path), f"has a {type(value).__name__} where an object is expected")
    return value


def _whole(value: Any, path: pathlib.Path, key: str) -> int:
    if type(value) is not int or value < 0:
        raise InvalidArgument(str(path), f"has {printable(json.dumps(value)[:40])} as '{key}', expected a number of 0 "
                              "or more")
    return value


def _number(value: Any, path: pathlib.Path, key: str) -> float:
    # A whole number may be larger than any floating-point number.
    if type(value) not in (int, float) or not abs(value) <= sys.float_info.max:
        raise InvalidArgument(str(path), f"has {printable(json.dumps(value)[:40])} as '{key}', expected a finite "
                              "number")
    return float(value)


def _texts(names: dict[str, Any]) -> dict[str, str]:
    """The texts of special tokens, which are texts or objects."""
    found = {}
    for key, value in names.items():
        text = value.get("content") if isinstance(value, dict) else value
        if key.endswith("_token") and isinstance(text, str):
            found[key] = text
    return found


def _template(folder: pathlib.Path, names: dict[str, Any], special: dict[str, str]) -> ChatTemplate | None:
    path = folder / "chat_template.jinja"
    data = _read_file(path, _LARGEST_FILE)
    if data is not None:
        try:
            return ChatTemplate(str(path), {"default": data.decode()}, special)
        except ValueError:
            raise InvalidArgument(str(path), "is not UTF-8 text") from None
    path, given = folder / "tokenizer_config.json", names.get("chat_template")
    if given is None:
        return None
    if isinstance(given, list):
        named = [(_mapping(each, path).get("name"), each.get("template")) for each in given]
    else:
        named = list(given.items()) if isinstance(given, dict) else [("default", given)]
    if not all(isinstance(text, str) for item in named for text in item):
        raise InvalidArgument(str(path), "has a 'chat_template' that is neither a text nor a list of names and texts")
    return ChatTemplate(str(path), dict(named), special)


def _sampling(generation: dict[str, Any], path: pathlib.Path) -> dict[str, Any]:
    """Options of `generate` by the rules of transformers: without `do_sample` decoding is greedy."""
    ignored = [key for key, without in _OTHER_OPTIONS.items() if generation.get(key) not in (None, *without, [], {})]
    if ignored:
        warnings.warn(ModelWarning(f"{path}: mpc has no " + ", ".join(f"'{key}'" for key in ignored)
                                   + ", so that tokens may differ from those of transformers"), stacklevel=4)
    found: dict[str, Any] = {}
    if generation.get("repetition_penalty") is not None:
        found["repetition_penalty"] = _number(generation["repetition_penalty"], path, "repetition_penalty")
    if generation.get("do_sample") is not True:
        return found
    # Defaults of transformers.
    for key, default in (("temperature", 1.0), ("top_p", 1.0), ("min_p", 0.0)):
        value = generation.get(key)
        found[key] = default if value is None else _number(value, path, key)
    value = generation.get("top_k")
    found["top_k"] = 50 if value is None else _whole(value, path, "top_k")
    return found


def _ends(folder: pathlib.Path, generation: dict[str, Any], config: dict[str, Any], text: str | None,
          tokenizer: Any) -> tuple[int, ...]:
    """Tokens that end a text."""
    for made, name in ((generation, "generation_config.json"), (config, "config.json")):
        given = made.get("eos_token_id")
        if given is not None:
            return tuple(_whole(token, folder / name, "eos_token_id")
                         for token in (given if isinstance(given, list) else [given]))
    token = tokenizer.token_to_id(text) if tokenizer is not None and text is not None else None
    return () if token is None else (token,)
