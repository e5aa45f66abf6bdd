# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Training steps (training.py) in PyTorch and in JAX, with mpc's parameters, loss and optimizer.
"""
import math

from training import BETAS, EPSILON, RATE

#===------------------------------------------------------------------------------------===#
# PyTorch
#===------------------------------------------------------------------------------------===#


class TorchFunctions:
    """The functions used by Training.forward. Weights have nn.Linear's layout."""

    @staticmethod
    def linear(x, w, b):
        from torch.nn import functional
        return functional.linear(x, w, b)

    @staticmethod
    def conv(x, w, b):
        from torch.nn import functional
        return functional.conv2d(x, w, b.flatten())

    @staticmethod
    def relu(x):
        return x.relu()

    @staticmethod
    def max_pool(x):
        from torch.nn import functional
        return functional.max_pool2d(x, 2)

    @staticmethod
    def flatten(x):
        return x.flatten(1)

    @staticmethod
    def gelu(x):
        from torch.nn import functional
        return functional.gelu(x)

    @staticmethod
    def layer_norm(x, scale, shift):
        from torch.nn import functional
        return functional.layer_norm(x, x.shape[-1:], scale, shift)

    @staticmethod
    def projections(x, weights, biases, heads):
        from torch.nn import functional
        batch, length, width = x.shape
        rows = [functional.linear(x, w, b) for w, b in zip(weights, biases)]
        return [r.view(batch, length, heads, width // heads).transpose(1, 2) for r in rows]

    @staticmethod
    def attention(q, k, v):
        from torch.nn import functional
        mixed = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2)
        return mixed.reshape(*mixed.shape[:2], -1)


class TorchStep:
    """A step by PyTorch's recipes: autocast, GradScaler for float16, fused Adam. `compiled` compiles model
    and loss. Never synchronizes with the host, so that a graph can capture it."""

    def __init__(self, workload, drawn, device, kind, compiled=False):
        import torch
        self.torch, self.workload, self.kind = torch, workload, kind
        wide = torch.float64 if kind == "float64" else torch.float32
        self.device = torch.device(device)

        def tensor_of(array, name=""):
            value = torch.as_tensor(array, device=self.device)
            if value.is_floating_point():
                value = value.to(wide)
            return value.t().contiguous() if len(workload.parameters.get(name, ())) == 2 else value
        self.parameters = {}
        for name, shape in workload.parameters.items():
            if name in drawn:
                value = tensor_of(drawn[name], name)
            else:
                value = torch.full(shape, float(name.startswith("scale")), device=self.device, dtype=wide)
            if len(shape) == 4 and self.device.type == "cuda":
                value = value.contiguous(memory_format=torch.channels_last)
            self.parameters[name] = value.requires_grad_()
        if workload.part == "apply":
            for name, value in self.parameters.items():
                value.grad = tensor_of(drawn[f"{name}.gradient"], name)
        else:
            self.x, self.label = tensor_of(drawn[workload.batch[0]]), tensor_of(drawn["label"])
            if self.label.dtype == torch.int32:
                self.label = self.label.long()
            if self.x.dim() == 4 and self.device.type == "cuda":
                self.x = self.x.contiguous(memory_format=torch.channels_last)
        cuda = self.device.type == "cuda"
        self.optimizer = torch.optim.Adam(self.parameters.values(), lr=RATE, betas=BETAS, eps=EPSILON,
                                          fused=kind != "float64", capturable=cuda)
        self.scaler = torch.amp.GradScaler(self.device.type) if kind == "float16" else None
        self.loss_of = torch.compile(self.loss, mode="max-autotune-no-cudagraphs") if compiled else self.loss

    def loss(self, x, label):
        from torch.nn import functional
        y = self.workload.forward(TorchFunctions, self.parameters, x)
        if self.workload.loss == "softmax_cross_entropy":
            return functional.cross_entropy(y, label)
        return functional.mse_loss(y, label)

    def backward(self):
        torch = self.torch
        self.optimizer.zero_grad(set_to_none=True)
        narrow = {"float16": torch.float16, "bfloat16": torch.bfloat16}.get(self.kind)
        with torch.autocast(self.device.type, narrow or torch.bfloat16, enabled=narrow is not None):
            loss = self.loss_of(self.x, self.label)
        (self.scaler.scale(loss) if self.scaler else loss).backward()
        return loss.detach()

    def __call__(self):
        loss = None
        if self.workload.part != "apply":
            loss = self.backward()
        elif self.scaler and self.scaler._scale is None:  # made by the first scaled loss
            self.scaler.scale(self.torch.zeros((), device=self.device))
        if self.scaler:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        else:
            self.optimizer.step()
        return loss

    def arrays(self):
        """Parameters and states under mpc's names and in its shapes."""
        result = {}
        for name, value in self.parameters.items():
            state = self.optimizer.state[value]
            for key, array in ((name, value), (f"{name}.exp_avg", state["exp_avg"]),
                               (f"{name}.exp_avg_sq", state["exp_avg_sq"])):
                array = array.detach().cpu()
                result[key] = (array.t() if array.dim() == 2 else array).numpy()
        return result


#===------------------------------------------------------------------------------------===#
# JAX
#===------------------------------------------------------------------------------------===#


def jax_step(workload, drawn, kind):
    """(a jitted step over (state, x, label), which donates its state, and its arguments)."""
    import jax
    import jax.numpy as jnp
    narrow = {"bfloat16": jnp.bfloat16, "float16": jnp.float16}.get(kind, jnp.float32)

    class Functions:
        """Types as under autocast: products in the narrow type, norms and losses in f32."""

        @staticmethod
        def linear(x, w, b):
            return x.astype(narrow) @ w.astype(narrow) + b.astype(narrow)

        @staticmethod
        def conv(x, w, b):
            product = jax.lax.conv(x.astype(narrow), w.astype(narrow), (1, 1), "VALID")
            return product + b.astype(narrow)

        @staticmethod
        def max_pool(x):
            # A Python scalar, so that JAX recognizes a differentiable max pool.
            lowest = x.dtype.type(-math.inf)
            return jax.lax.reduce_window(x, lowest, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")

        relu = staticmethod(jax.nn.relu)

        @staticmethod
        def flatten(x):
            return x.reshape(x.shape[0], -1)

        @staticmethod
        def gelu(x):
            return jax.nn.gelu(x, approximate=False)

        @staticmethod
        def layer_norm(x, scale, shift):
            wide = x.astype(jnp.float32)
            centred = wide - wide.mean(-1, keepdims=True)
            return centred * jax.lax.rsqrt((centred * centred).mean(-1, keepdims=True) + 1e-5) * scale + shift

        @classmethod
        def projections(cls, x, weights, biases, heads):
            batch, length, width = x.shape
            return [cls.linear(x, w, b).reshape(batch, length, heads, width // heads)
                    for w, b in zip(weights, biases)]

        @staticmethod
        def attention(q, k, v):
            mixed = jax.nn.dot_product_attention(q, k, v)
            return mixed.reshape(*mixed.shape[:2], -1)

    def loss(parameters, x, label, scale):
        y = workload.forward(Functions, parameters, x).astype(jnp.float32)
        if workload.loss == "softmax_cross_entropy":
            value = -jnp.take_along_axis(jax.nn.log_softmax(y), label[:, None], -1).mean()
        else:
            value = ((y - label) ** 2).mean()
        return value * scale, value

    def adam(state, gradients):
        t = state["step"] + 1
        finite = jnp.array(True)
        if kind == "float16":
            gradients = {name: g / state["scale"] for name, g in gradients.items()}
            finite = jnp.stack([jnp.isfinite(g).all() for g in gradients.values()]).all()
        new = {"w": {}, "m": {}, "v": {}}
        for name, g in gradients.items():
            w, m, v = (state[key][name] for key in "wmv")
            m1 = BETAS[0] * m + (1 - BETAS[0]) * g
            v1 = BETAS[1] * v + (1 - BETAS[1]) * g * g
            root = jnp.sqrt(v1 / (1 - BETAS[1] ** t)) + EPSILON
            w1 = w - RATE / (1 - BETAS[0] ** t) * m1 / root
            for key, old, value in (("w", w, w1), ("m", m, m1), ("v", v, v1)):
                new[key][name] = jnp.where(finite, value, old)
        good = jnp.where(finite, state["good"] + 1, 0)
        grows = good == 2000
        scale = jnp.where(finite, jnp.where(grows, 2, 1) * state["scale"], state["scale"] / 2)
        return new | {"step": jnp.where(finite, t, state["step"]), "scale": scale, "good": jnp.where(grows, 0, good)}

    def step(state, x, label):
        if workload.part == "apply":
            return adam(state, x), jnp.zeros(())
        scale = state["scale"] if kind == "float16" else 1.0
        gradients, value = jax.grad(loss, has_aux=True)(state["w"], x, label, scale)
        return adam(state, gradients), value

    weights = {name: jnp.asarray(drawn[name]) if name in drawn
               else jnp.full(shape, float(name.startswith("scale")), jnp.float32)
               for name, shape in workload.parameters.items()}
    state = {"w": weights, "m": jax.tree.map(jnp.zeros_like, weights), "v": jax.tree.map(jnp.zeros_like, weights),
             "step": jnp.zeros((), jnp.int32), "scale": jnp.full((), 65536.0), "good": jnp.zeros((), jnp.int32)}
    if workload.part == "apply":
        batch = {name: jnp.asarray(drawn[f"{name}.gradient"]) for name in weights}, None
    else:
        batch = jnp.asarray(drawn[workload.batch[0]]), jnp.asarray(drawn["label"])
    return jax.jit(step, donate_argnums=0), state, batch
