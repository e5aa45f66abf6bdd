#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ten small networks as people write them with Flax, Equinox or plain JAX.

usage: export.py models.py --output FOLDER

Each function returns a function and its arguments, parameters first, random from a fixed
seed. Shapes are small; layers are the libraries', since their traces are under test. Needs
jax, flax and equinox.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jax import lax


def drawn(tree, seed=0):
    """The same tree with normally distributed numbers, including parameters initialized to zeros or ones,
    scaled as in a layer's usual initialization."""
    random = np.random.RandomState(seed)

    def draw(path, leaf):
        name = jax.tree_util.keystr(path)
        shape = np.shape(leaf)
        if not jnp.issubdtype(jnp.asarray(leaf).dtype, jnp.floating):
            return leaf
        noise = random.randn(*shape).astype("f4")
        if "var" in name:
            return 0.5 + np.abs(noise)
        if "scale" in name:
            return 1 + 0.2 * noise
        fan_in = int(np.prod(shape[:-1])) if len(shape) > 1 else 25
        return noise / np.float32(np.sqrt(max(fan_in, 1)))

    return jax.tree_util.tree_map_with_path(draw, tree)


def normal(*shape, seed=1):
    return np.random.RandomState(seed).randn(*shape).astype("f4")


def flax_model(module, *arguments):
    """The forward function of a Flax module and its arguments."""
    shapes = jax.eval_shape(module.init, jax.random.key(0), *arguments)
    variables = drawn(jax.tree_util.tree_map(lambda s: np.zeros(s.shape, s.dtype), shapes))
    return (lambda variables, *inputs: module.apply(variables, *inputs)), (variables, *arguments)


def equinox_model(model, call, *arguments):
    """The same for an Equinox module, whose arrays are arguments."""
    arrays, rest = eqx.partition(model, eqx.is_array)
    return (lambda arrays, *inputs: call(eqx.combine(arrays, rest), *inputs)), (drawn(arrays), *arguments)


class Bottleneck(nn.Module):
    """A residual block, with a projection if the shape changes."""

    features: int
    strides: int = 1

    @nn.compact
    def __call__(self, x):
        norm = lambda name, **more: nn.BatchNorm(use_running_average=True, name=name, **more)
        y = nn.relu(norm("n1")(nn.Conv(self.features, (1, 1), use_bias=False)(x)))
        y = nn.Conv(self.features, (3, 3), (self.strides, self.strides), use_bias=False)(y)
        y = nn.relu(norm("n2")(y))
        y = norm("n3")(nn.Conv(4 * self.features, (1, 1), use_bias=False)(y))
        if x.shape != y.shape:
            x = nn.Conv(4 * self.features, (1, 1), (self.strides, self.strides), use_bias=False)(x)
            x = norm("shortcut")(x)
        return nn.relu(x + y)


class ResNet(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.Conv(16, (7, 7), (2, 2), padding=[(3, 3), (3, 3)], use_bias=False)(x)
        x = nn.relu(nn.BatchNorm(use_running_average=True)(x))
        x = nn.max_pool(x, (3, 3), (2, 2), padding="SAME")
        for features, strides in ((16, 1), (32, 2), (64, 2)):
            x = Bottleneck(features, strides)(x)
            x = Bottleneck(features)(x)
        return nn.Dense(10)(jnp.mean(x, axis=(1, 2)))


def model_resnet():
    return flax_model(ResNet(), normal(2, 48, 48, 3))


class Encoder(nn.Module):
    @nn.compact
    def __call__(self, x):
        y = nn.LayerNorm()(x)
        x = x + nn.MultiHeadDotProductAttention(num_heads=4)(y, y)
        y = nn.LayerNorm()(x)
        y = nn.Dense(x.shape[-1])(nn.gelu(nn.Dense(4 * x.shape[-1])(y)))
        return x + y


class ViT(nn.Module):
    @nn.compact
    def __call__(self, images):
        x = nn.Conv(64, (8, 8), (8, 8), padding="VALID")(images)
        x = x.reshape(x.shape[0], -1, x.shape[-1])
        first = self.param("cls", nn.initializers.normal(), (1, 1, 64))
        x = jnp.concatenate([jnp.tile(first, (x.shape[0], 1, 1)), x], axis=1)
        x = x + self.param("positions", nn.initializers.normal(), (1, x.shape[1], 64))
        for _ in range(3):
            x = Encoder()(x)
        return nn.Dense(10)(nn.LayerNorm()(x)[:, 0])


def model_vit():
    return flax_model(ViT(), normal(2, 32, 32, 3))


def model_gpt_decode():
    """One decoding step with a KV cache; the position is an argument."""
    width, heads, length, layers, vocabulary = 64, 4, 24, 2, 101

    def norm(x, scale, bias):
        mean = x.mean(-1, keepdims=True)
        return (x - mean) * lax.rsqrt(jnp.var(x, -1, keepdims=True) + 1e-5) * scale + bias

    def step(parameters, caches, token, position):
        x = parameters["tokens"][token] + parameters["positions"][position]
        new_caches = []
        for p, (keys, values) in zip(parameters["layers"], caches):
            y = norm(x, p["scale1"], p["bias1"])
            q, k, v = jnp.split(y @ p["qkv"], 3, axis=-1)
            shape = (token.shape[0], heads, 1, width // heads)
            q, k, v = (z.reshape(shape) for z in (q, k, v))
            keys = lax.dynamic_update_slice_in_dim(keys, k, position, axis=2)
            values = lax.dynamic_update_slice_in_dim(values, v, position, axis=2)
            new_caches.append((keys, values))
            scores = jnp.einsum("bhqd,bhkd->bhqk", q, keys) / np.sqrt(width // heads).astype("f4")
            scores = jnp.where(jnp.arange(length) <= position, scores, -jnp.inf)
            mixed = jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores), values)
            x = x + mixed.reshape(token.shape[0], width) @ p["out"]
            y = norm(x, p["scale2"], p["bias2"])
            x = x + jax.nn.gelu(y @ p["up"]) @ p["down"]
        return norm(x, parameters["scale"], parameters["bias"]) @ parameters["tokens"].T, new_caches

    layer = {
        "scale1": normal(width), "bias1": normal(width), "qkv": normal(width, 3 * width),
        "out": normal(width, width), "scale2": normal(width), "bias2": normal(width),
        "up": normal(width, 4 * width), "down": normal(4 * width, width),
    }
    parameters = drawn({
        "tokens": normal(vocabulary, width), "positions": normal(length, width),
        "layers": [layer] * layers, "scale": normal(width), "bias": normal(width),
    })
    cache = [tuple(normal(2, heads, length, width // heads, seed=s) for s in (n, n + 9)) for n in range(layers)]
    return step, (parameters, cache, np.array([3, 77], "i4"), np.array(11, "i4"))


class MixerBlock(eqx.Module):
    patches: eqx.nn.MLP
    channels: eqx.nn.MLP
    norm1: eqx.nn.LayerNorm
    norm2: eqx.nn.LayerNorm

    def __init__(self, count, width, key):
        keys = jax.random.split(key)
        self.patches = eqx.nn.MLP(count, count, 2 * count, 1, jax.nn.gelu, key=keys[0])
        self.channels = eqx.nn.MLP(width, width, 2 * width, 1, jax.nn.gelu, key=keys[1])
        self.norm1 = eqx.nn.LayerNorm((width, count))
        self.norm2 = eqx.nn.LayerNorm((count, width))

    def __call__(self, x):
        x = x + jax.vmap(self.patches)(self.norm1(x))
        x = x.T
        x = x + jax.vmap(self.channels)(self.norm2(x))
        return x.T


class Mixer(eqx.Module):
    embed: eqx.nn.Conv2d
    blocks: list
    head: eqx.nn.Linear

    def __init__(self, key):
        keys = jax.random.split(key, 4)
        self.embed = eqx.nn.Conv2d(3, 32, 8, 8, key=keys[0])
        self.blocks = [MixerBlock(16, 32, k) for k in keys[1:3]]
        self.head = eqx.nn.Linear(32, 10, key=keys[3])

    def __call__(self, image):
        x = self.embed(image)
        x = x.reshape(x.shape[0], -1)
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(-1))


def model_mixer():
    model = Mixer(jax.random.key(0))
    return equinox_model(model, lambda m, images: jax.vmap(m)(images), normal(4, 3, 32, 32))


class UNet(nn.Module):
    """A U-Net with group norm; skip connections are concatenated."""

    @nn.compact
    def __call__(self, x):
        def block(x, features):
            for _ in range(2):
                x = nn.silu(nn.GroupNorm(num_groups=4)(nn.Conv(features, (3, 3))(x)))
            return x

        kept = []
        for features in (16, 32):
            x = block(x, features)
            kept.append(x)
            x = nn.avg_pool(x, (2, 2), (2, 2))
        x = block(x, 64)
        for features, across in zip((32, 16), reversed(kept)):
            batch, height, width, channels = x.shape
            x = jax.image.resize(x, (batch, 2 * height, 2 * width, channels), "nearest")
            x = block(jnp.concatenate([nn.Conv(features, (2, 2))(x), across], axis=-1), features)
        return nn.Conv(2, (1, 1))(x)


def model_unet():
    return flax_model(UNet(), normal(1, 32, 32, 3))


class Tagger(nn.Module):
    """A bidirectional LSTM tagger."""

    @nn.compact
    def __call__(self, words):
        x = nn.Embed(100, 24)(words)
        # Flax's initial state is float32, which does not fit a float64 scan.
        start = (jnp.zeros((x.shape[0], 32), x.dtype),) * 2
        forward = nn.RNN(nn.OptimizedLSTMCell(32))(x, initial_carry=start)
        backward = nn.RNN(nn.LSTMCell(32), reverse=True, keep_order=True)(x, initial_carry=start)
        return nn.log_softmax(nn.Dense(7)(jnp.concatenate([forward, backward], axis=-1)))


def model_lstm():
    words = np.random.RandomState(2).randint(0, 100, (3, 12)).astype("i4")
    return flax_model(Tagger(), words)


class VAE(eqx.Module):
    encoder: eqx.nn.MLP
    decoder: eqx.nn.MLP

    def __init__(self, key):
        keys = jax.random.split(key)
        self.encoder = eqx.nn.MLP(64, 16, 48, 2, jax.nn.relu, key=keys[0])
        self.decoder = eqx.nn.MLP(8, 64, 48, 2, jax.nn.relu, key=keys[1])

    def __call__(self, image, key):
        mean, log_variance = jnp.split(self.encoder(image), 2)
        noise = jax.random.normal(key, mean.shape, jnp.float32)
        logits = self.decoder(mean + jnp.exp(0.5 * log_variance) * noise)
        divergence = 0.5 * jnp.sum(jnp.exp(log_variance) + mean**2 - 1 - log_variance)
        cost = jnp.sum(jnp.maximum(logits, 0) - logits * image + jnp.log1p(jnp.exp(-jnp.abs(logits))))
        return jax.nn.sigmoid(logits), cost + divergence


def model_vae():
    def call(model, images, seed):
        keys = jax.random.split(jax.random.wrap_key_data(seed, impl="threefry2x32"), images.shape[0])
        return jax.vmap(model)(images, keys)

    images = np.random.RandomState(3).rand(5, 64).astype("f4")
    return equinox_model(VAE(jax.random.key(0)), call, images, np.array([7, 42], "u4"))


def model_mixture():
    """Two of four experts for each token, weighted by the router's softmax."""
    tokens, width, experts, chosen = 24, 32, 4, 2

    def forward(p, x):
        gates, which = lax.top_k(jax.nn.softmax(x @ p["router"]), chosen)
        gates = gates / gates.sum(-1, keepdims=True)
        mask = jax.nn.one_hot(which, experts, dtype=x.dtype)
        weight = jnp.einsum("tk,tke->te", gates, mask)
        hidden = jax.nn.silu(jnp.einsum("tw,ewh->teh", x, p["gate"])) * jnp.einsum("tw,ewh->teh", x, p["up"])
        out = jnp.einsum("teh,ehw->tew", hidden, p["down"])
        load = mask.sum(axis=(0, 1)) / (tokens * chosen)
        return x + jnp.einsum("tew,te->tw", out, weight), load

    # Router logits far enough apart that 16 bits select the same experts.
    parameters = drawn({
        "gate": normal(experts, width, 2 * width), "up": normal(experts, width, 2 * width),
        "down": normal(experts, 2 * width, width),
    })
    x = normal(tokens, width, seed=4)
    router = normal(width, experts, seed=5)
    for row in x:
        row += router @ (np.random.RandomState(int(abs(row[0]) * 1e4)).permutation(experts).astype("f4") * 0.2)
    return forward, ({**parameters, "router": router}, x)


class Generator(nn.Module):
    @nn.compact
    def __call__(self, z):
        x = nn.Dense(4 * 4 * 64)(z).reshape(-1, 4, 4, 64)
        for features in (32, 16):
            x = nn.BatchNorm(use_running_average=True)(x)
            x = nn.ConvTranspose(features, (4, 4), (2, 2), use_bias=False)(nn.leaky_relu(x, 0.2))
        return jnp.tanh(nn.ConvTranspose(3, (3, 3), (2, 2))(x))


def model_generator():
    return flax_model(Generator(), normal(3, 16))


class Denoiser(nn.Module):
    """Predicts the noise in an image, with sinusoidal time embeddings."""

    @nn.compact
    def __call__(self, x, time):
        frequencies = jnp.exp(-jnp.log(1e4) * jnp.arange(16, dtype=x.dtype) / 16)
        angles = time[:, None] * frequencies
        embedding = jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=-1)
        embedding = nn.Dense(64)(nn.silu(nn.Dense(64)(embedding)))
        h = nn.Conv(32, (3, 3))(x)
        for _ in range(2):
            y = nn.Conv(32, (3, 3))(nn.silu(nn.GroupNorm(num_groups=8)(h)))
            shift, scale = jnp.split(nn.Dense(64)(nn.silu(embedding)), 2, axis=-1)
            y = nn.GroupNorm(num_groups=8)(y) * (1 + scale[:, None, None]) + shift[:, None, None]
            h = h + nn.Conv(32, (3, 3))(nn.silu(y))
        flat = nn.GroupNorm(num_groups=8)(h).reshape(h.shape[0], -1, 32)
        h = h + nn.MultiHeadDotProductAttention(num_heads=2)(flat, flat).reshape(h.shape)
        return nn.Conv(3, (3, 3))(nn.silu(nn.GroupNorm(num_groups=8)(h)))


def model_diffusion():
    """One reverse step of a DDPM, with the added noise as an argument."""
    module = Denoiser()
    forward, (variables, *_) = flax_model(module, normal(2, 16, 16, 3), np.array([3.0, 40.0], "f4"))

    def step(variables, x, time, noise, alphas):
        alpha = alphas[time.astype(jnp.int32)][:, None, None, None]
        total = jnp.cumprod(alphas)[time.astype(jnp.int32)][:, None, None, None]
        guess = forward(variables, x, time)
        mean = (x - (1 - alpha) / jnp.sqrt(1 - total) * guess) / jnp.sqrt(alpha)
        return mean + jnp.sqrt(1 - alpha) * noise

    alphas = np.linspace(0.999, 0.98, 50).astype("f4")
    return step, (variables, normal(2, 16, 16, 3), np.array([3.0, 40.0], "f4"), normal(2, 16, 16, 3, seed=6), alphas)
