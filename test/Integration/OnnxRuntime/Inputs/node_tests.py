#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs ONNX's node tests through the plugin execution provider of ONNX Runtime.

  node_tests.py FOLDER [TEST...] [--faulty FILE] [--least-right N] [--least-claimed N]

Prints each test that is wrong or that ONNX Runtime refuses, and the numbers of right tests and of tests with nodes
that mpc runs. Exit code 1 if a test that --faulty does not list is wrong and not random, if there are fewer right or claimed tests
than asked for, or if a process ends early. ONNX Runtime's Python package has no arrays of types below 8 bits: such
inputs become constants of the model, such outputs are cast to float.
"""
import argparse
import concurrent.futures
import ctypes
import os
import pathlib
import sys

import ml_dtypes
import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

import onnxruntime_ep_mpc

# Types that are passed as the bits of an unsigned integer.
NARROW_FLOATS = {
    TensorProto.BFLOAT16: ml_dtypes.bfloat16, TensorProto.FLOAT8E4M3FN: ml_dtypes.float8_e4m3fn,
    TensorProto.FLOAT8E4M3FNUZ: ml_dtypes.float8_e4m3fnuz, TensorProto.FLOAT8E5M2: ml_dtypes.float8_e5m2,
    TensorProto.FLOAT8E5M2FNUZ: ml_dtypes.float8_e5m2fnuz}
# Outputs are numbers of NumPy's generator, which ONNX leaves open.
RANDOM = ("test_bernoulli", "test_training_dropout")
WITHOUT_ARRAYS = {TensorProto.INT4, TensorProto.UINT4, TensorProto.INT2, TensorProto.UINT2,
                  TensorProto.FLOAT4E2M1, TensorProto.FLOAT8E8M0}


def element_type(value):
    return value.type.tensor_type.elem_type if value.type.HasField("tensor_type") else 0


def read_proto(path, value):
    proto = {"tensor_type": onnx.TensorProto, "sequence_type": onnx.SequenceProto,
             "optional_type": onnx.OptionalProto}[value.type.WhichOneof("value")]()
    proto.ParseFromString(path.read_bytes())
    return proto


def to_python(proto):
    if isinstance(proto, onnx.TensorProto):
        return numpy_helper.to_array(proto)
    return (numpy_helper.to_list if isinstance(proto, onnx.SequenceProto) else numpy_helper.to_optional)(proto)


def without_small_types(model, folder):
    """Replaces inputs and outputs that have no arrays; returns the remaining inputs by position."""
    inputs = dict(enumerate(model.graph.input))
    for i, value in list(inputs.items()):
        if element_type(value) in WITHOUT_ARRAYS:
            constant = read_proto(folder / f"input_{i}.pb", value)
            constant.name = value.name
            model.graph.initializer.append(constant)
            del inputs[i]
    kept = list(inputs.values())
    del model.graph.input[:]
    model.graph.input.extend(kept)
    for value in model.graph.output:
        if element_type(value) in WITHOUT_ARRAYS:
            model.graph.node.append(
                helper.make_node("Cast", [value.name], [value.name + "_float"], to=TensorProto.FLOAT))
            value.name += "_float"
            value.type.tensor_type.elem_type = TensorProto.FLOAT
    return inputs


def to_value(proto):
    array = to_python(proto)
    if isinstance(proto, onnx.TensorProto) and proto.data_type in NARROW_FLOATS:
        bits = array.copy().view(f"u{array.dtype.itemsize}")
        return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, proto.data_type)
    return array


def from_value(value):
    narrow = NARROW_FLOATS.get(value.element_type()) if value.is_tensor() else None
    if not narrow:
        return value.numpy()
    count = int(np.prod(value.shape()))
    if not count:
        return np.zeros(value.shape(), narrow)
    memory = (ctypes.c_char * (count * np.dtype(narrow).itemsize)).from_address(value.data_ptr())
    return np.frombuffer(memory, narrow).reshape(value.shape())


def compare(got, want):
    if isinstance(want, list):
        assert len(got) == len(want), f"{len(got)} instead of {len(want)} elements"
        for one, other in zip(got, want):
            compare(one, other)
        return
    if want is None:
        assert got is None, "is not empty"
        return
    got, want = np.asarray(got), np.asarray(want)
    if want.dtype.kind in "OUST":
        texts = [text.decode() if isinstance(text, bytes) else str(text) for text in want.ravel()]
        assert [str(text) for text in got.ravel()] == texts, "texts differ"
        return
    assert got.shape == want.shape, f"shape {got.shape} instead of {want.shape}"
    # As ONNX's own runner, with more for types of fewer than 16 bits of fraction.
    narrow = want.dtype.itemsize < 4 and want.dtype.kind not in "iub"
    np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=1e-2 if narrow else 1e-3,
                               atol=1e-3 if narrow else 1e-5)


def run(folder):
    """Runs one test; returns its verdict, a text, and the number of nodes that mpc runs."""
    model = onnx.load(folder / "model.onnx")
    sets = sorted(folder.glob("test_data_set_*"))
    inputs = without_small_types(model, sets[0])
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    name = onnxruntime_ep_mpc.get_ep_name()
    options.add_provider_for_devices([d for d in ort.get_ep_devices() if d.ep_name == name], {})
    claimed = 0
    try:
        session = ort.InferenceSession(model.SerializeToString(), options)
        claimed = sum(len(part.get_nodes()) for part in session.get_provider_graph_assignment_info()
                      if part.ep_name == name)
        for data in sets:
            feed = {value.name: to_value(read_proto(data / f"input_{i}.pb", value)) for i, value in inputs.items()
                    if (data / f"input_{i}.pb").exists()}
            outputs = model.graph.output
            if any(isinstance(value, ort.OrtValue) for value in feed.values()) or any(
                    element_type(value) in NARROW_FLOATS for value in outputs):
                values = {key: value if isinstance(value, ort.OrtValue) else ort.OrtValue.ortvalue_from_numpy(value)
                          for key, value in feed.items()}
                results = [from_value(value) for value in session.run_with_ort_values(None, values)]
            else:
                results = session.run(None, feed)
            originals = onnx.load(folder / "model.onnx").graph.output
            for i, result in enumerate(results):
                if (data / f"output_{i}.pb").exists():
                    compare(result, to_python(read_proto(data / f"output_{i}.pb", originals[i])))
    except AssertionError as failure:
        return "wrong", " ".join(str(failure).split())[:200], claimed
    except Exception as failure:  # ONNX Runtime's exceptions have no common type
        return "refused", " ".join(str(failure).split())[:200], claimed
    return "right", "", claimed


def register():
    ort.set_default_logger_severity(4)
    ort.register_execution_provider_library("mpc", onnxruntime_ep_mpc.get_library_path())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("tests", nargs="*")
    parser.add_argument("--faulty", type=pathlib.Path)
    parser.add_argument("--least-right", type=int, default=0)
    parser.add_argument("--least-claimed", type=int, default=0)
    arguments = parser.parse_args()
    faulty = {line.split(":")[0] for line in arguments.faulty.read_text().splitlines()} if arguments.faulty else set()
    tests = arguments.tests or sorted(path.parent.name for path in arguments.folder.glob("*/model.onnx"))
    with concurrent.futures.ProcessPoolExecutor(len(os.sched_getaffinity(0)), initializer=register) as pool:
        results = list(pool.map(run, (arguments.folder / test for test in tests), chunksize=8))
    counts = {"right": 0, "wrong": 0, "refused": 0}
    wrong = claimed = 0
    for test, (verdict, text, nodes) in zip(tests, results):
        counts[verdict] += 1
        claimed += nodes > 0 and verdict == "right"
        is_open = test in faulty or test.startswith(RANDOM)
        wrong += verdict == "wrong" and not is_open
        if verdict != "right":
            print(f"{verdict} {test}{' (random or faulty data)' if is_open else ''}: {text}")
    print(f"{len(tests)} tests: {counts['right']} right, {claimed} of them by mpc, {counts['wrong']} wrong "
          f"({wrong} without random and faulty data), {counts['refused']} refused")
    return wrong > 0 or counts["right"] < arguments.least_right or claimed < arguments.least_claimed


if __name__ == "__main__":
    sys.exit(main())
