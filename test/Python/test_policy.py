# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""mpc.Policy, the global policy and the one of a context."""

import concurrent.futures
import copy
import json
import pickle
import threading

import mpc
import numpy as np
import pytest


@pytest.fixture(autouse=True)
def _global():
    yield
    mpc.set_global_policy("float32")


def test_a_policy_is_pickled_and_copied():
    policy = mpc.Policy("mixed_bfloat16", overrides={"op:softmax": "float32"})
    for other in (pickle.loads(pickle.dumps(policy)), copy.deepcopy(policy)):
        assert other == policy and hash(other) == hash(policy) and other.compute_dtype == "bfloat16"


def test_a_name_has_types():
    policy = mpc.Policy("mixed_float16")
    assert (policy.name, policy.compute_dtype, policy.variable_dtype) == ("mixed_float16", "float16", "float32")
    assert (policy.store_dtype, policy.accumulate_dtype, policy.output_dtype) == ("float16", "float32", "float32")
    assert policy == "mixed_float16" and policy == mpc.Policy(policy) and policy != mpc.Policy("mixed_bfloat16")
    assert {policy, mpc.Policy("mixed_float16")} == {policy} and str(policy) == "mixed_float16"
    assert "mixed_float16" in mpc.Policy.names() and "auto" not in mpc.Policy.names()


def test_auto_has_the_types_of_this_machine():
    assert mpc.Policy("auto").compute_dtype in ("float32", "bfloat16", "float16")
    with pytest.raises(mpc.InvalidArgument, match="is an alias"):
        mpc.Policy("auto", overrides={"op:softmax": "float32"})


def test_json_goes_out_and_comes_in(tmp_path):
    policy = mpc.Policy("mixed_bfloat16", overrides={"layer:body/.*": "float32"}, layers={"head": "float32"},
                        name="mine")
    fields = json.loads(policy.to_json())
    assert fields == {"name": "mine", "extends": "mixed_bfloat16", "overrides": {"layer:body/.*": "float32"},
                      "layers": {"head": "float32"}}
    assert mpc.Policy.from_json(policy.to_json()) == policy == mpc.Policy(fields)
    plain = mpc.Policy("float32")
    assert mpc.Policy.from_json(plain.to_json()) == plain
    (tmp_path / "house.json").write_text(json.dumps({"extends": "mixed_float16", "compute": "bfloat16"}))
    house = mpc.Policy(tmp_path / "house.json")
    assert (house.name, house.compute_dtype) == ("house", "bfloat16")
    # The policy is a value: later changes of the file have no effect.
    (tmp_path / "house.json").unlink()
    assert mpc.Policy.from_json(house.to_json(indent=2)) == house


def test_overrides_add_up():
    first = mpc.Policy("mixed_float16", overrides={"op:softmax": "float16"})
    both = mpc.Policy(first, overrides={"layer:head": "float32"})
    assert first.overrides == {"op:softmax": "float16"}
    assert both.overrides == {"op:softmax": "float16", "layer:head": "float32"} and both != first


@pytest.mark.parametrize("make, error, text", [
    (lambda: mpc.Policy("half"), mpc.InvalidArgument, "unknown policy 'half'"),
    (lambda: mpc.Policy("/nowhere/p.json"), mpc.NotFound, "cannot be read"),
    (lambda: mpc.Policy({"name": "p", "compute": "int8"}), mpc.InvalidArgument, "compute"),
    (lambda: mpc.Policy("float32", overrides={"layers:a": "float16"}), mpc.InvalidArgument, "layers:a"),
    (lambda: mpc.Policy.from_json("{"), mpc.InvalidArgument, "is not valid JSON"),
    (lambda: mpc.Policy.from_json("[1]"), mpc.InvalidArgument, "not an object"),
])
def test_errors_are_reported_immediately(make, error, text):
    with pytest.raises(error, match=text):
        make()


@pytest.mark.parametrize("overrides", ["layer:0=float32", [("a",)], {"layer:0": None}, 3])
def test_overrides_are_keys_and_types(dense, overrides):
    with pytest.raises(mpc.InvalidArgument, match="not a mapping of keys to types"):
        mpc.compile(dense, overrides=overrides)


def test_a_policy_object_replaces_a_name(cnn):
    path, images = cnn
    policy = mpc.Policy("mixed_bfloat16", overrides={"layer:0/conv2": "float32"})
    function = mpc.compile(path, images, policy=policy)
    assert function.policy is policy
    assert function.layers["0/conv1"] == "bf16" and function.layers["0/conv2"] == "f32"
    whole = mpc.compile(path, images, policy={"name": "p", "extends": "mixed_bfloat16", "layers": {"0/.*": "float32"}})
    assert {whole.layers[f"0/{layer}"] for layer in ("conv1", "conv2", "fc1", "fc2")} == {"f32"}
    named = mpc.compile(path, images, policy="mixed_bfloat16", overrides={"layer:0/conv2": "float32"})
    np.testing.assert_array_equal(function(images), named(images))


def test_the_global_policy_and_a_context(dense):
    assert mpc.compile(dense).policy == mpc.global_policy() == "float32"
    mpc.set_global_policy("mixed_float16")
    assert mpc.compile(dense).policy == "mixed_float16"
    with mpc.policy("mixed_bfloat16") as outer:
        assert mpc.compile(dense).policy is outer
        with mpc.policy("mixed_float16"):
            assert mpc.compile(dense).policy == mpc.global_policy() == "mixed_float16"
            assert mpc.compile(dense, policy="float32").policy == "float32"
        assert mpc.global_policy() == "mixed_bfloat16"
    assert mpc.global_policy() == "mixed_float16"
    with pytest.raises(RuntimeError), mpc.policy("mixed_bfloat16"):
        raise RuntimeError
    assert mpc.global_policy() == "mixed_float16"


def test_the_default_says_once_what_auto_would_select(dense, monkeypatch, caplog):
    monkeypatch.setattr(mpc._policy, "_global", mpc._policy._DEFAULT)
    monkeypatch.setattr(mpc._policy, "_advised", set())
    monkeypatch.setattr(mpc._policy._mpc, "best_policy", lambda _: ("mixed_bfloat16", "cpu:new has units for bfloat16"))
    mpc.compile(dense, policy="float32")
    assert not caplog.messages
    mpc.compile(dense)
    mpc.compile(dense)
    assert caplog.messages == ['the policy is float32, the default; policy="auto" is mixed_bfloat16: '
                               "cpu:new has units for bfloat16"]


def test_a_context_is_of_its_thread(dense):
    mpc.set_global_policy("float32")
    ready = threading.Barrier(4)

    def one(name):
        with mpc.policy(name):
            ready.wait(timeout=60)
            return mpc.compile(dense).policy == name

    names = ["mixed_bfloat16", "mixed_float16", "bfloat16", "tf32"]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert all(pool.map(one, names))
        assert pool.submit(lambda: mpc.global_policy() == "float32").result()
