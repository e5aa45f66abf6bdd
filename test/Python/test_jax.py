# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""mpc.jax.jit and arrays of JAX; skipped without it."""

import mpc
import numpy as np
import pytest

jax = pytest.importorskip("jax")

import mpc.jax  # noqa: E402


def network(parameters, x, depth):
    for _ in range(depth):
        x = jax.numpy.tanh(x @ parameters["w"] + parameters["b"])
    return {"y": x, "parts": (x.sum(), x[0])}


@pytest.fixture
def drawn():
    keys = jax.random.split(jax.random.key(0), 3)
    return {"w": jax.random.normal(keys[0], (32, 32)) / 6, "b": jax.random.normal(keys[1], (32,))}, \
        jax.random.normal(keys[2], (4, 32))


def distance(found, wanted):
    """The largest difference between two trees of arrays, of one structure."""
    assert jax.tree.structure(found) == jax.tree.structure(wanted)
    return max(jax.tree.leaves(jax.tree.map(lambda a, b: float(abs(a - b).max()), found, wanted)))


@pytest.mark.parametrize("policy, bound", [("float32", 1e-4), ("mixed_bfloat16", 1.0), ("mixed_float16", 0.1)])
def test_trees_go_in_and_come_out(drawn, policy, bound):
    parameters, x = drawn
    compiled = mpc.jax.jit(network, policy=policy, static_argnums=2)
    for depth in (1, 3):
        found = compiled(parameters, x, depth)
        assert isinstance(found["y"], jax.Array)
        assert distance(found, network(parameters, x, depth)) < bound


def test_gradients_are_taken_inside(drawn):
    parameters, x = drawn
    step = jax.value_and_grad(lambda parameters, x: network(parameters, x, 2)["y"].sum())
    assert distance(mpc.jax.jit(step, policy="float32")(parameters, x), step(parameters, x)) < 1e-4


def test_keywords_shapes_and_numbers(drawn):
    parameters, x = drawn
    compiled = mpc.jax.jit(lambda x, *, scale: x * scale, policy="float32")
    for rows in (1, 4):
        np.testing.assert_allclose(compiled(x[:rows], scale=2.0), 2 * x[:rows])


# A square root of squares whose sum, 90000, no float16 holds.
@pytest.mark.parametrize("policy, bound", [("float32", 1e-6), ("mixed_float16", 4e-3), ("mixed_bfloat16", 2e-2)])
def test_norms_of_large_rows_and_their_gradients(policy, bound):
    x, w = jax.numpy.full((3, 3), 100.0), 8 * jax.numpy.eye(3)
    for function, arguments in ((lambda x: jax.numpy.sqrt((x * x).sum()), (x,)),
                                (lambda x, w: jax.numpy.linalg.norm(x @ w, axis=-1).sum(), (x, w))):
        function = jax.value_and_grad(function)
        found, wanted = mpc.jax.jit(function, policy=policy)(*arguments), function(*arguments)
        for f, w in zip(found, wanted):
            np.testing.assert_allclose(f, w, rtol=bound)


def test_the_norm_of_a_float16_array_overflows_as_jaxs_does():
    x = jax.numpy.full((3, 3), 100, jax.numpy.float16)
    assert jax.numpy.isinf(jax.numpy.linalg.norm(x))
    with pytest.warns(mpc.ModelWarning, match="infinities"):
        assert jax.numpy.isinf(mpc.jax.jit(jax.numpy.linalg.norm, policy="float32")(x))


def row_gather(m, i):
    """Starts that no dimension clamps but the gather itself."""
    dimensions = jax.lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0, 1))
    return jax.lax.gather(m, i, dimensions, (1, 3), mode="promise_in_bounds")


LINE, PLACES = np.arange(10, 110, 10, dtype="f4"), np.array([-5, 0, 2, 100, 9, -1, 2**31 - 1, -2**31], "i4")
MATRIX, ROWS = np.arange(30, dtype="f4").reshape(6, 5), np.arange(28, dtype="f4").reshape(4, 7)
STARTS, REPEATED = np.array([[-2, 0, 8], [6, 7, -1], [3, 3, 9], [-8, 2, 2]], "i4"), np.array([3, 3, 12, 0, -1], "i4")
INDEXED = {
    "clip": (lambda x, i: x.at[i].get(mode="clip"), LINE, PLACES),
    "fill": (lambda x, i: x.at[i].get(mode="fill", fill_value=-1), LINE, PLACES),
    "fill with NaN": (lambda x, i: x.at[i].get(mode="fill"), LINE, PLACES),
    "by default": (lambda x, i: x[i], LINE, PLACES),
    "pairs": (lambda m, i, j: m[i, j], MATRIX, np.array([1, 8, -3], "i4"), np.array([4, 2, -7], "i4")),
    "gather": (row_gather, MATRIX, np.array([[1, 2], [4, 1], [5, 0]], "i4")),
    "dynamic_slice": (lambda m, a, b: jax.lax.dynamic_slice(m, (a, b), (3, 2)), MATRIX, np.int32(5), np.int32(-4)),
    "dynamic_update_slice": (lambda m, u, a, b: jax.lax.dynamic_update_slice(m, u, (a, b)), MATRIX, np.ones((3, 2), "f4"), np.int32(100), np.int32(4)),
    "take_along_axis": (lambda m, i: jax.numpy.take_along_axis(m, i, 1), MATRIX, np.array([[0], [4], [5], [-1], [2], [-6]], "i4")),
    "set": (lambda x, i: x.at[i].set(-7.0, mode="drop"), LINE, np.array([3, 50, -1], "i4")),
    "add": (lambda x, i, u: x.at[i].add(u), LINE, REPEATED, np.arange(5, dtype="f4")),
    "min": (lambda x, i, u: x.at[i].min(u), LINE, REPEATED, np.array([5, 7, 1, 1000, 3], "f4")),
    "multiply": (lambda x, i, u: x.at[i].multiply(u), LINE, REPEATED, np.array([5, 7, 2, 0.5, 3], "f4")),
    "rows add": (lambda *a: jax.vmap(lambda x, i, u: x.at[i].add(u))(*a), ROWS, STARTS, np.ones((4, 3), "f4")),
    "rows min": (lambda *a: jax.vmap(lambda x, i, u: x.at[i].min(u))(*a), ROWS.astype("i4"), STARTS, np.full((4, 3), 4, "i4")),
    "rows": (lambda *a: jax.vmap(lambda x, i: x[i])(*a), ROWS, STARTS),
    "rows dynamic_slice": (lambda *a: jax.vmap(lambda x, s: jax.lax.dynamic_slice(x, (s,), (3,)))(*a), ROWS, np.array([-1, 2, 6, 4], "i4")),
    "gradient": (jax.grad(lambda e, i: (e[i] ** 2).sum()), MATRIX, np.array([[0, 5, 6, -1]], "i4")),
}


@pytest.mark.parametrize("name", INDEXED)
def test_indices_out_of_range_are_jaxs(name):
    function, *arguments = INDEXED[name]
    found = mpc.jax.jit(function, policy="float32")(*arguments)
    np.testing.assert_array_equal(found, jax.jit(function)(*arguments))


def test_numbers_take_the_type_of_what_they_meet():
    compiled = mpc.jax.jit(lambda x, y: x * y, policy="float32")
    for x in (jax.numpy.ones(4, jax.numpy.bfloat16), jax.numpy.ones(4, jax.numpy.int8)):
        assert compiled(x, 2).dtype == x.dtype
        assert compiled(x, jax.numpy.ones(4)).dtype == jax.numpy.float32


def test_keys_go_in_and_come_out():
    def draw(key, x):
        key, mine = jax.random.split(key)
        return x + jax.random.normal(mine, x.shape), {"key": key}

    key, x = jax.random.key(3), jax.numpy.zeros(8)
    found, wanted = mpc.jax.jit(draw, policy="float32")(key, x), draw(key, x)
    np.testing.assert_allclose(found[0], wanted[0], atol=1e-5)
    assert found[1]["key"].dtype == key.dtype and (found[1]["key"] == wanted[1]["key"]).all()


def test_names_stand_for_numbers(drawn):
    _, x = drawn

    def scaled(x, times, *, shift=0):
        return x * times + shift

    wanted = scaled(x, 3, shift=1)
    for static in ({"static_argnums": 1, "static_argnames": "shift"}, {"static_argnames": ("times", "shift")},
                   {"static_argnums": -1, "static_argnames": ["shift"]}):
        compiled = mpc.jax.jit(scaled, policy="float32", **static)
        np.testing.assert_array_equal(compiled(x, 3, shift=1), wanted)
        np.testing.assert_array_equal(compiled(x, times=3, shift=1), wanted)
        with pytest.raises(mpc.InvalidArgument, match="scaled: has a static argument that is no key"):
            compiled(x, [3], shift=1)
    given = x + 0
    mpc.jax.jit(lambda state: state + 1, policy="float32", donate_argnums=0)(state=given)
    assert given.is_deleted()


def test_trees_are_jits():
    with pytest.raises(mpc.InvalidArgument, match=r"function of trees of arrays; mpc.jax.jit\(\) takes it"):
        mpc.compile(lambda tree: tree["x"], {"x": np.ones(3, np.float32)})


def test_a_function_is_a_model(drawn):
    _, x = drawn
    function = mpc.compile(lambda x: x.T, x, policy="float32")
    assert isinstance(function(x), jax.Array)
    np.testing.assert_array_equal(function(x), x.T)


# ===----------------------------------------------------------------------=== #
# Gradients
# ===----------------------------------------------------------------------=== #


def test_gradients_are_taken_outside(drawn):
    parameters, x = drawn
    calls = []

    def loss(parameters, x, index, depth):
        calls.append(depth)
        found = network(parameters, x, depth)
        return found["y"][index].sum(), found["parts"]

    index = jax.numpy.array([0, 2])
    compiled = mpc.jax.jit(loss, policy="float32", static_argnums=3)
    outside = jax.value_and_grad(lambda p, x: compiled(p, x, index, 2), argnums=(0, 1), has_aux=True)
    wanted = jax.value_and_grad(lambda p, x: loss(p, x, index, 2), argnums=(0, 1), has_aux=True)(parameters, x)
    assert distance(outside(parameters, x), wanted) < 1e-4
    traced = len(calls)
    assert distance(outside(parameters, x), wanted) < 1e-4
    # Compiled: later calls do not run the function.
    assert len(calls) == traced
    assert distance(jax.grad(lambda p: compiled(p, x, index, 2)[0])(parameters), wanted[1][0]) < 1e-4


@pytest.mark.parametrize("policy, bound", [("mixed_bfloat16", 0.05), ("mixed_float16", 0.01)])
def test_gradients_follow_the_policy(drawn, policy, bound):
    parameters, x = drawn

    def loss(parameters, x):
        return (network(parameters, x, 2)["y"] ** 2).mean()

    found = jax.grad(mpc.jax.jit(loss, policy=policy))(parameters, x)
    error = distance(found, jax.grad(loss)(parameters, x))
    assert 0 < error < bound


def test_vjp_and_integer_results(drawn):
    parameters, x = drawn
    compiled = mpc.jax.jit(lambda p, x: {"y": x @ p["w"], "best": (x @ p["w"]).argmax(1)}, policy="float32")
    found, pull = jax.vjp(lambda p: compiled(p, x)["y"], parameters)
    wanted, pull_wanted = jax.vjp(lambda p: x @ p["w"], parameters)
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    assert distance(pull(found), pull_wanted(wanted)) < 1e-3


def test_inside_of_jit_and_vmap_it_is_a_call(drawn):
    parameters, x = drawn
    compiled = mpc.jax.jit(lambda w, x: jax.numpy.tanh(x @ w).sum(), policy="float32")
    wanted = jax.numpy.tanh(x @ parameters["w"]).sum()
    np.testing.assert_allclose(jax.jit(lambda w, x: 2 * compiled(w, x))(parameters["w"], x), 2 * wanted, rtol=1e-4)
    rows = jax.vmap(compiled, in_axes=(None, 0))(parameters["w"], x[:, None])
    np.testing.assert_allclose(rows.sum(), wanted, rtol=1e-4)
    found = jax.jit(jax.grad(compiled))(parameters["w"], x)
    np.testing.assert_allclose(found, jax.grad(lambda w: jax.numpy.tanh(x @ w).sum())(parameters["w"]), atol=1e-4)


# ===----------------------------------------------------------------------=== #
# Donation
# ===----------------------------------------------------------------------=== #


def test_donated_results_are_written_in_place(drawn):
    parameters, x = drawn

    def update(state, x):
        return {name: value - 0.1 * x.mean() for name, value in state.items()}, x.sum()

    compiled = mpc.jax.jit(update, policy="float32", donate_argnums=0)
    wanted = {name: np.array(value) for name, value in parameters.items()}
    kept = dict(parameters)
    state, _ = compiled(parameters, x)
    # Arrays created by JAX may alias memory that JAX does not own: mpc copied and then deleted them.
    assert all(value.is_deleted() for value in kept.values())
    places = {name: value.unsafe_buffer_pointer() for name, value in state.items()}
    for _ in range(50):
        before = state
        state, total = compiled(state, x)
        assert all(value.is_deleted() for value in before.values())
    assert {name: value.unsafe_buffer_pointer() for name, value in state.items()} == places
    for name, value in state.items():
        np.testing.assert_allclose(value, wanted[name] - 51 * 0.1 * np.mean(x), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(total, x.sum(), rtol=1e-4, atol=1e-4)
    with pytest.raises(mpc.InvalidArgument, match="was deleted"):
        compiled(before, x)
    view = np.asarray(state["w"])
    copy = view.copy()
    compiled(state, x)
    np.testing.assert_array_equal(view, copy)


def test_a_loss_scale_goes_on_from_call_to_call():
    """The loss scale is part of a donated step without being an argument. A gradient of 2 times the scale
    overflows float16 until the scale is 16384: two steps are skipped, then the step is applied."""
    def update(w, x):
        loss, gradient = jax.value_and_grad(lambda w: ((x @ w + 2) ** 2).sum() / 2)(w)
        return w - gradient / 64, loss

    compiled = mpc.jax.jit(update, policy="mixed_float16", donate_argnums=0)
    w, x, values = jax.numpy.zeros((16, 4)), jax.numpy.full((4, 16), 0.25), []
    for _ in range(4):
        w, loss = compiled(w, x)
        values.append(float(w[0, 0]))
    assert values[:3] == [0, 0, -1 / 32] and values[3] < values[2] and 0 < loss < 32
    # Another function has a scale of its own.
    again = mpc.jax.jit(update, policy="mixed_float16", donate_argnums=0)
    assert not again(jax.numpy.zeros((16, 4)), x)[0].any()


def test_memory_of_numpy_is_never_written():
    for size in (8, 4096, 1 << 20):
        numbers = np.ones(size, np.float32)
        compiled = mpc.jax.jit(lambda x: x + 1, policy="float32", donate_argnums=0)
        for given in (numbers, jax.numpy.asarray(numbers)):
            np.testing.assert_array_equal(compiled(given), 2)
            assert (numbers == 1).all()


def test_what_is_not_donated_stays(drawn):
    _, x = drawn
    compiled = mpc.jax.jit(lambda x: x + 1, policy="float32")
    y = compiled(x)
    z = compiled(y)
    np.testing.assert_array_equal(z, np.asarray(y) + 1)
    assert not x.is_deleted() and not y.is_deleted()


# ===----------------------------------------------------------------------=== #
# Training
# ===----------------------------------------------------------------------=== #


def cross_entropy(parameters, x, labels):
    h = jax.numpy.tanh(x @ parameters["layers"][0]["w"] + parameters["layers"][0]["b"])
    logits = h @ parameters["layers"][1]["w"] + parameters["layers"][1]["b"]
    chosen = jax.numpy.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], axis=1)
    return -chosen.mean(), logits


@pytest.fixture
def classifier():
    keys = jax.random.split(jax.random.key(1), 4)
    layers = [{"w": jax.random.normal(keys[0], (32, 16)) / 6, "b": jax.numpy.zeros(16)},
              {"w": jax.random.normal(keys[1], (16, 5)) / 4, "b": jax.numpy.zeros(5)}]
    return {"layers": layers}, jax.random.normal(keys[2], (16, 32)), jax.random.randint(keys[3], (16,), 0, 5)


def test_a_trainer_of_a_loss_is_gradient_descent(classifier):
    parameters, x, y = classifier
    trainer = mpc.Trainer(cross_entropy, parameters, x, y, policy="float32", optimizer="sgd", lr=0.5)
    assert trainer.parameters == ["layers.0.b", "layers.0.w", "layers.1.b", "layers.1.w"]
    losses = []
    for _ in range(5):
        trainer.step(x, y)
        losses.append(trainer.metrics()["loss"])
        (loss, _), gradients = jax.value_and_grad(cross_entropy, has_aux=True)(parameters, x, y)
        assert abs(losses[-1] - loss) < 1e-4
        parameters = jax.tree.map(lambda p, g: p - 0.5 * g, parameters, gradients)
    assert distance(trainer.sync(), parameters) < 1e-4 and losses[-1] < losses[0]
    assert trainer.evaluate(x, y)["batches"] == 1


def test_a_trainer_of_a_loss_keeps_its_state(classifier):
    parameters, x, y = classifier
    first, second = (mpc.Trainer(cross_entropy, parameters, x, y, policy="mixed_float16", lr=0.01) for _ in range(2))
    first.step((x, y))
    state = first.state_dict()
    assert state["model"].keys() == set(first.parameters) and state["optimizer"]["state"][3]["exp_avg"].shape == (16, 5)
    second.load_state_dict(state)
    for trainer in (first, second):
        trainer.step(x, y)
    assert distance(first.sync(), second.sync()) == 0
    frozen = mpc.Trainer(cross_entropy, parameters, x, y, policy="float32", freeze=["layers.0.w"])
    frozen.step(x, y)
    after = frozen.sync()
    np.testing.assert_array_equal(after["layers"][0]["w"], parameters["layers"][0]["w"])
    assert not np.array_equal(after["layers"][1]["w"], parameters["layers"][1]["w"])


@jax.custom_vjp
def straight(x):
    return jax.numpy.round(x)


straight.defvjp(lambda x: (jax.numpy.round(x), None), lambda _, gradient: (gradient,))


@jax.custom_vjp
def clipped(x):
    return x


clipped.defvjp(lambda x: (x, None), lambda _, gradient: (jax.numpy.clip(gradient, -0.01, 0.01),))
TABLE = np.linspace(0.5, 2, 3, dtype=np.float32)
BENT = {"stop_gradient": lambda p, x: jax.lax.stop_gradient(jax.numpy.tanh(x @ p["w"])) * (x @ p["w"]),
        "straight": lambda p, x: straight(x @ p["w"]), "clipped": lambda p, x: clipped(x @ p["w"]),
        # A captured constant of the function is no parameter.
        "constant": lambda p, x: jax.numpy.tanh(x @ p["w"]) * TABLE,
        "checkpoint": lambda p, x: jax.checkpoint(lambda v: jax.numpy.tanh(v @ p["w"]))(x),
        "loop": lambda p, x: jax.lax.fori_loop(0, 2, lambda _, h: jax.numpy.tanh(h @ p["w"] @ p["w"].T), x) @ p["w"],
        "softmax": lambda p, x: jax.nn.log_softmax(jax.nn.softmax(x @ p["w"]))}


@pytest.mark.parametrize("policy, tolerance", [("float32", 2e-6), ("mixed_bfloat16", 2e-2), ("mixed_float16", 2e-3)])
@pytest.mark.parametrize("name", BENT)
def test_gradients_of_a_loss_are_jaxs(name, policy, tolerance):
    numbers = np.random.default_rng(0)
    parameters = {"w": jax.numpy.asarray(numbers.normal(size=(4, 3)) / 2, jax.numpy.float32)}
    x, y = (numbers.normal(size=(5, n)).astype(np.float32) for n in (4, 3))

    def loss(p, x, y):
        return jax.numpy.mean((BENT[name](p, x) - y) ** 2)

    trainer = mpc.Trainer(loss, parameters, x, y, optimizer="sgd", lr=0.1, policy=policy, threads=1,
                          loss_scale="dynamic,init=256" if policy == "mixed_float16" else "")
    assert trainer.parameters == ["w"]
    for _ in range(2):
        wanted = jax.grad(loss)(parameters, x, y)["w"]
        trainer.forward_backward(x, y)
        assert np.abs(np.asarray(trainer.gradients()["w"]) - wanted).max() < tolerance * max(1, np.abs(wanted).max())
        trainer.apply()
        assert trainer.loss_scale["skipped_steps"] == 0
        parameters = {"w": parameters["w"] - 0.1 * wanted}
    assert np.abs(np.asarray(trainer.sync()["w"]) - parameters["w"]).max() < tolerance
    assert abs(trainer.evaluate(x, y)["loss"] - loss(parameters, x, y)) < 10 * tolerance


def test_a_loss_of_sixteen_bits_and_one_without_a_scalar(classifier):
    parameters, x, y = classifier
    narrow = mpc.Trainer(lambda p, x, y: cross_entropy(p, x, y)[0].astype(jax.numpy.bfloat16), parameters, x, y,
                         policy="float32", optimizer="sgd", lr=0.5)
    narrow.step(x, y)
    gradients = jax.grad(lambda p: cross_entropy(p, x, y)[0])(parameters)
    wanted = jax.tree.map(lambda p, g: p - 0.5 * g, parameters, gradients)
    assert distance(narrow.sync(), wanted) < 1e-2
    with pytest.raises(mpc.InvalidArgument, match=r"returns an array of shape \(16, 5\), no scalar loss"):
        mpc.Trainer(lambda p, x, y: cross_entropy(p, x, y)[1], parameters, x, y)
    with pytest.raises(mpc.InvalidArgument, match="cannot be put into a JAX loss"):
        mpc.Trainer(cross_entropy, parameters, x, y, dropout={"h": 0.5})


def test_wrong_losses_are_errors(classifier, tmp_path):
    parameters, x, y = classifier
    with pytest.raises(mpc.InvalidArgument, match="at least two arrays"):
        mpc.Trainer(cross_entropy, parameters, x)
    with pytest.raises(mpc.InvalidArgument, match="parameter 'n'.*not float32"):
        mpc.Trainer(lambda p, x, y: (x * p["w"]).mean(), {"w": jax.numpy.ones(32), "n": jax.numpy.arange(3)}, x, y)
    with pytest.raises(mpc.InvalidArgument, match="cannot be made from a JAX loss"):
        mpc.Trainer(cross_entropy, parameters, x, y).export(tmp_path / "m.onnx")


@pytest.mark.parametrize("policy, bound", [("float32", 1e-4), ("mixed_bfloat16", 1.0)])
def test_constants_are_part_of_the_program(drawn, policy, bound, monkeypatch):
    parameters, x = drawn
    made = []
    compile_program = mpc._function.compile
    monkeypatch.setattr(mpc._function, "compile", lambda *a, **k: made.append(compile_program(*a, **k)) or made[-1])
    compiled = mpc.jax.jit(network, policy=policy, static_argnums=2, constant_argnums=0)
    for _ in range(2):
        assert distance(compiled(parameters, x, 2), network(parameters, x, 2)) < bound
    assert [len(function.inputs) for function in made] == [1]
    # Other arrays are other constants.
    other = jax.tree.map(lambda leaf: leaf + 1, parameters)
    assert distance(compiled(other, x, 2), network(other, x, 2)) < bound
    assert len(made) == 2
    # Gradients take them as arguments.
    total = jax.grad(lambda p: compiled(p, x, 2)["y"].sum())(parameters)
    assert distance(total, jax.grad(lambda p: network(p, x, 2)["y"].sum())(parameters)) < 8 * bound


def test_constants_by_name_and_donated_arguments(drawn):
    parameters, x = drawn
    compiled = mpc.jax.jit(lambda x, parameters: x @ parameters["w"], policy="float32", donate_argnums=0,
                           constant_argnames="parameters")
    wanted = x @ parameters["w"]
    given = x + 0
    np.testing.assert_allclose(compiled(given, parameters=parameters), wanted, atol=1e-5)
    assert given.is_deleted()


def test_constants_that_may_change_are_refused(drawn):
    parameters, x = drawn
    compiled = mpc.jax.jit(lambda w, x: x @ w, constant_argnums=0)
    with pytest.raises(mpc.InvalidArgument, match="argument 0: is constant, but has a leaf that is of type ndarray"):
        compiled(np.asarray(parameters["w"]), x)
    with pytest.raises(mpc.InvalidArgument, match="is constant and donated"):
        mpc.jax.jit(lambda w, x: x @ w, constant_argnums=0, donate_argnums=0)(parameters["w"], x)
    w, x = parameters["w"], jax.numpy.asarray(x)
    compiled = mpc.jax.jit(lambda w, x: x @ w, constant_argnums=0)
    compiled(w + 0, x)
    with pytest.raises(mpc.InvalidArgument, match="argument 0: is constant and was deleted"):
        w.delete()
        compiled(w, x)
    with pytest.raises(mpc.InvalidArgument, match="constant_argnames: has 'weights', which is no argument"):
        mpc.jax.jit(lambda w, x: x @ w, constant_argnames="weights")
    with pytest.raises(mpc.InvalidArgument, match="constant_argnums: has 7, but the function has 2"):
        mpc.jax.jit(lambda w, x: x @ w, constant_argnums=7)


def test_constants_before_donated_arguments(drawn):
    parameters, x = drawn
    step = mpc.jax.jit(lambda p, cache, t: (cache.at[0].set(t), (cache @ p["w"]).sum()), policy="float32",
                       constant_argnums=0, donate_argnums=1)
    cache = x
    for t in range(3):
        wanted = (cache @ parameters["w"]).sum(), np.asarray(cache)[1:]
        cache, total = step(parameters, cache + 0 if t == 0 else cache, jax.numpy.float32(t))
        np.testing.assert_allclose(total, wanted[0], atol=1e-4)
        np.testing.assert_array_equal(cache[0], t)
        np.testing.assert_array_equal(cache[1:], wanted[1])


def test_constants_inside_of_traces_compile_once(drawn, monkeypatch):
    parameters, x = drawn
    made = []
    compile_program = mpc._function.compile
    monkeypatch.setattr(mpc._function, "compile", lambda *a, **k: made.append(0) or compile_program(*a, **k))
    compiled = mpc.jax.jit(lambda p, x: x @ p["w"], policy="float32", constant_argnums=0)
    outer = jax.jit(lambda x: compiled(parameters, x))
    for _ in range(3):
        np.testing.assert_allclose(outer(x), x @ parameters["w"], atol=1e-4)
    assert len(made) == 1


def test_static_values_of_other_types_are_traced_anew():
    compiled = mpc.jax.jit(lambda x, s: x * s if isinstance(s, bool) else x / s, policy="float32", static_argnums=1)
    x = jax.numpy.array([3])
    assert [compiled(x, s).dtype for s in (True, 1.0)] == [jax.numpy.int32, jax.numpy.float32]
