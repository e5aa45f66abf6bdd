# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The GPT of loop_models.py in JAX: loss, gradients, clipping and AdamW are one function of the state,
compiled by `jax.jit` or by `mpc.jax.jit`. Weights, batches and rates are those of the loop in PyTorch.
"""
import jax
import jax.numpy as jnp

BETAS, EPSILON, DECAY = (0.9, 0.99), 1e-8, 0.1


def norm(x, scale):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * scale


def loss_of(weights, x, y, layers, heads):
    b, t = x.shape
    h = weights["letter.weight"][x] + weights["place.weight"][:t]
    for i in range(layers):
        w = {name: weights[f"blocks.{i}.{name}.weight"] for name in ("norm1", "qkv", "out", "norm2", "up", "down")}
        q, k, v = (part.reshape(b, t, heads, -1)
                   for part in jnp.split(norm(h, w["norm1"]) @ w["qkv"].T, 3, axis=-1))
        h = h + jax.nn.dot_product_attention(q, k, v, is_causal=True).reshape(b, t, -1) @ w["out"].T
        h = h + jax.nn.gelu(norm(h, w["norm2"]) @ w["up"].T, approximate=False) @ w["down"].T
    scores = jax.nn.log_softmax(norm(h, weights["norm.weight"]) @ weights["letter.weight"].T)
    return -jnp.take_along_axis(scores, y[..., None], -1).mean()


def make_step(layers, heads, clip):
    def step(state, x, y, rate):
        loss, gradients = jax.value_and_grad(loss_of)(state["weights"], x, y, layers, heads)
        size = jnp.sqrt(sum((g ** 2).sum() for g in jax.tree.leaves(gradients)))
        factor = jnp.minimum(1.0, clip / (size + 1e-6))
        count = state["count"] + 1
        new = {"weights": {}, "first": {}, "second": {}, "count": count}
        for name, w in state["weights"].items():
            g = gradients[name] * factor
            m = BETAS[0] * state["first"][name] + (1 - BETAS[0]) * g
            v = BETAS[1] * state["second"][name] + (1 - BETAS[1]) * g * g
            change = m / (1 - BETAS[0] ** count) / (jnp.sqrt(v / (1 - BETAS[1] ** count)) + EPSILON)
            decay = DECAY if w.ndim == 2 else 0.0
            new["weights"][name] = w - rate * (change + decay * w)
            new["first"][name], new["second"][name] = m, v
        return new, loss
    return step


class Loop:
    def __init__(self, task, policy, seed, data, options):
        module = task.module(data, seed)
        weights = {name: jnp.array(p.detach().numpy()) for name, p in module.named_parameters()}
        zeros = lambda: {name: jnp.zeros_like(w) for name, w in weights.items()}
        self.state = {"weights": weights, "first": zeros(), "second": zeros(), "count": jnp.float32(0)}
        self.task, self.steps, self.done = task, options.steps, 0
        self.batches = task.batches(data, seed)
        step = make_step(task.gpt["layers"], task.gpt["heads"], task.clip)
        if policy is None:
            self.run = jax.jit(step, donate_argnums=0)
        else:
            import mpc.jax
            self.run = mpc.jax.jit(step, policy=policy, donate_argnums=0, threads=options.threads)

    def step(self):
        x, y = (jnp.asarray(a, jnp.int32) for a in next(self.batches))
        rate = jnp.float32(self.task.rate_at(self.done, self.steps))
        self.state, loss = self.run(self.state, x, y, rate)
        self.done += 1
        return float(loss)

    def facts(self):
        return {}
