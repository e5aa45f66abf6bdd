#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The workloads of bench.py: models, shapes and training steps.

The descriptions need the standard library alone; build() and export() need PyTorch and onnx.
Weights are normal with deviation 1/sqrt(fan in), inputs standard normal and exact in bf16.
"""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Workload:
    name: str
    about: str
    make: str  # constructor in modules()
    shapes: dict
    small: dict = dataclasses.field(default_factory=dict)  # extents for a quick test
    loss: str = ""  # a training step where given, else inference
    optimizer: str = ""
    dropout: tuple = ()  # (name of a node of the exported graph, probability)

    @property
    def trains(self):
        return bool(self.loss)

    @property
    def precisions(self):
        """The precisions that a system may use; a plain update makes no 16-bit copies."""
        if self.make == "update":
            return ["float32"]
        return ["float32", "mixed"] if self.trains else ["float32", "mixed", "bfloat16"]

    def extents(self, small):
        return {**self.shapes, **(self.small if small else {})}

    def training(self):
        """The argument of `mpc bench --training`."""
        if self.make == "update":
            return "apply optimizer=adam learning-rate=1e-4 loss-scale=dynamic,init=1024"
        flags = [f"step loss={self.loss}", f"optimizer={self.optimizer}",
                 f"learning-rate={'1e-4' if self.optimizer == 'adam' else '1e-3'}"]
        return " ".join(flags + ([f"dropout={','.join(f'{n}={p}' for n, p in self.dropout)}"]
                                 if self.dropout else []))


CLASSES, SQUARES, BINARY = "softmax_cross_entropy", "mean_squared_error", "sigmoid_cross_entropy"
BERT = {"batch": 4, "tokens": 128, "width": 768, "heads": 12, "inner": 3072}
BERT_SMALL = {"batch": 1, "tokens": 32}
WORKLOADS = [
    Workload("mlp_train", "784-4096-4096-10 with ReLU, batch 8192, Adam", "mlp",
             {"batch": 8192, "hidden": 4096}, {"batch": 256, "hidden": 512}, CLASSES, "adam"),
    Workload("cnn_train", "two 3x3 convolutions (32, 64), pool, 9216-128-10, dropout, batch 256, SGD",
             "cnn", {"batch": 256}, {"batch": 16}, CLASSES, "sgd",
             (("/pool/MaxPool", 0.25), ("/act3/Relu", 0.5))),
    Workload("bert_fwd", "encoder layer of BERT-base, 4 x 128 tokens", "encoder", BERT, BERT_SMALL),
    Workload("bert_train", "encoder layer of BERT-base, 4 x 128 tokens, Adam", "encoder", BERT,
             BERT_SMALL, SQUARES, "adam"),
    Workload("resnet50_infer", "ResNet-50, 8 images of 224 x 224, batch norms folded", "resnet",
             {"batch": 8, "size": 224}, {"batch": 1, "size": 64}),
    Workload("resnet50_train", "ResNet-50, 8 images of 224 x 224, SGD", "resnet",
             {"batch": 8, "size": 224}, {"batch": 2, "size": 64}, CLASSES, "sgd"),
    Workload("unet_train", "U-Net of 7.8 M parameters, one image of 256 x 256, SGD", "unet",
             {"batch": 1, "size": 256}, {"size": 64}, BINARY, "sgd"),
    Workload("lstm_train", "two layers of LSTM (650), 35 x 20 words of 10,000, SGD", "lstm",
             {"steps": 35, "batch": 20, "words": 10000, "width": 650},
             {"steps": 5, "batch": 4, "words": 500}, CLASSES, "sgd"),
    Workload("residual_layernorm", "layer norm of a sum, 4096 x 768", "residual_norm",
             {"rows": 4096, "columns": 768}, {"rows": 256}),
    Workload("softmax", "softmax of 6144 rows of 512", "softmax", {"rows": 6144, "columns": 512},
             {"rows": 256}),
    Workload("gemm_bias_gelu", "product 512 x 768 x 3072, bias and GELU (tanh)", "dense_gelu",
             {"rows": 512, "inner": 768, "columns": 3072}, {"rows": 64}),
    Workload("adam_update", "unscale, check and Adam of 20 x 1,000,000 parameters", "update",
             {"tensors": 20, "side": 1000}, {"tensors": 2}, "none", "adam"),
    Workload("gemm_f32", "product of 1024 cubed in float32", "product",
             {"rows": 1024, "inner": 1024, "columns": 1024}),
]
SWEEP = [Workload(f"gemm_{m}x{k}x{n}", f"product {m} x {k} x {n}, constant weights", "product",
                  {"rows": m, "inner": k, "columns": n})
         for m, k, n in [(128, 768, 768), (512, 768, 768), (512, 768, 3072), (512, 3072, 768),
                         (256, 1024, 1024), (1024, 1024, 1024), (2048, 2048, 2048),
                         (8192, 784, 4096), (8192, 4096, 10), (128, 3072, 768)]]


def find(name):
    for i, workload in enumerate(WORKLOADS + SWEEP):
        if name in (workload.name, f"C{i + 1}" if i < len(WORKLOADS) else None):
            return workload
    raise SystemExit(f"error: there is no workload '{name}'; --list names them")


def modules():
    """Makers of torch modules by name: extents -> (module, inputs, target)."""
    import torch
    from torch import nn
    from torch.nn import functional as F
    normal, table = torch.randn, {}

    def maker(function):
        table[function.__name__] = function
        return function

    def classes(count, *shape):
        return torch.randint(count, shape)

    @maker
    def mlp(batch, hidden):
        net = nn.Sequential(nn.Linear(784, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(),
                            nn.Linear(hidden, 10))
        return net, [normal(batch, 784)], classes(10, batch)

    class Cnn(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1, self.act1 = nn.Conv2d(1, 32, 3), nn.ReLU()
            self.conv2, self.act2 = nn.Conv2d(32, 64, 3), nn.ReLU()
            self.pool, self.drop1 = nn.MaxPool2d(2), nn.Dropout(0.25)
            self.fc1, self.act3, self.drop2 = nn.Linear(9216, 128), nn.ReLU(), nn.Dropout(0.5)
            self.fc2 = nn.Linear(128, 10)

        def forward(self, image):
            x = self.act2(self.conv2(self.act1(self.conv1(image))))
            x = self.drop1(self.pool(x)).flatten(1)
            return self.fc2(self.drop2(self.act3(self.fc1(x))))

    @maker
    def cnn(batch):
        return Cnn(), [normal(batch, 1, 28, 28)], classes(10, batch)

    class Encoder(nn.Module):
        """Attention, then two dense layers; each with a residual and post-norm."""

        def __init__(self, width, heads, inner):
            super().__init__()
            self.heads = heads
            self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
            self.mix, self.norm1 = nn.Linear(width, width), nn.LayerNorm(width)
            self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)
            self.norm2 = nn.LayerNorm(width)

        def forward(self, x):
            parts = [part(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
                     for part in (self.query, self.key, self.value)]
            heads = F.scaled_dot_product_attention(*parts)
            x = self.norm1(x + self.mix(heads.transpose(1, 2).flatten(2)))
            return self.norm2(x + self.down(F.gelu(self.up(x))))

    @maker
    def encoder(batch, tokens, width, heads, inner):
        return (Encoder(width, heads, inner), [normal(batch, tokens, width)],
                normal(batch, tokens, width))

    def conv_norm(before, after, kernel, stride=1):
        return [nn.Conv2d(before, after, kernel, stride, kernel // 2, bias=False),
                nn.BatchNorm2d(after)]

    class Bottleneck(nn.Module):
        def __init__(self, before, middle, stride):
            super().__init__()
            after = 4 * middle
            self.path = nn.Sequential(*conv_norm(before, middle, 1), nn.ReLU(),
                                      *conv_norm(middle, middle, 3, stride), nn.ReLU(),
                                      *conv_norm(middle, after, 1))
            same = before == after and stride == 1
            self.skip = nn.Identity() if same else nn.Sequential(*conv_norm(before, after, 1, stride))

        def forward(self, x):
            return F.relu(self.path(x) + self.skip(x))

    @maker
    def resnet(batch, size):
        layers, width = [*conv_norm(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)], 64
        for middle, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
            for i in range(count):
                layers.append(Bottleneck(width, middle, stride if i == 0 else 1))
                width = 4 * middle
        layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 1000)]
        return nn.Sequential(*layers), [normal(batch, 3, size, size)], classes(1000, batch)

    class UNet(nn.Module):
        def __init__(self, base=32, levels=5):
            super().__init__()
            widths = [base << i for i in range(levels)]
            self.down = nn.ModuleList(self.twice(b, a) for b, a in zip([3, *widths], widths))
            pairs = list(zip(widths, widths[1:]))[::-1]
            self.rise = nn.ModuleList(nn.ConvTranspose2d(a, b, 2, 2) for b, a in pairs)
            self.up = nn.ModuleList(self.twice(2 * b, b) for b, _ in pairs)
            self.head = nn.Conv2d(base, 1, 1)

        @staticmethod
        def twice(before, after):
            return nn.Sequential(*conv_norm(before, after, 3), nn.ReLU(),
                                 *conv_norm(after, after, 3), nn.ReLU())

        def forward(self, x):
            kept = []
            for i, block in enumerate(self.down):
                x = block(F.max_pool2d(x, 2) if i else x)
                kept.append(x)
            for rise, block, skip in zip(self.rise, self.up, kept[-2::-1]):
                x = block(torch.cat([rise(x), skip], 1))
            return self.head(x)

    @maker
    def unet(batch, size):
        return UNet(), [normal(batch, 3, size, size)], (normal(batch, 1, size, size) > 0).float()

    class Words(nn.Module):
        def __init__(self, words, width):
            super().__init__()
            self.table, self.lstm = nn.Embedding(words, width), nn.LSTM(width, width, 2)
            self.head = nn.Linear(width, words)

        def forward(self, words):
            return self.head(self.lstm(self.table(words))[0])

    @maker
    def lstm(steps, batch, words, width):
        return Words(words, width), [classes(words, steps, batch)], classes(words, steps, batch)

    class ResidualNorm(nn.Module):
        def __init__(self, columns):
            super().__init__()
            self.norm = nn.LayerNorm(columns)

        def forward(self, x, y):
            return self.norm(x + y)

    @maker
    def residual_norm(rows, columns):
        return ResidualNorm(columns), [normal(rows, columns), normal(rows, columns)], None

    @maker
    def softmax(rows, columns):
        return nn.Softmax(-1), [2 * normal(rows, columns)], None

    @maker
    def dense_gelu(rows, inner, columns):
        return (nn.Sequential(nn.Linear(inner, columns), nn.GELU(approximate="tanh")),
                [normal(rows, inner)], None)

    @maker
    def product(rows, inner, columns):
        return nn.Linear(inner, columns, bias=False), [normal(rows, inner)], None

    @maker
    def update(tensors, side):
        """The given number of parameters."""
        layers = [nn.Linear(side, side, bias=False) for _ in range(tensors)]
        return nn.Sequential(*layers), [normal(1, side)], normal(1, side)

    return table


def build(workload, small=False):
    """(module, inputs, target) in float32, deterministic per workload."""
    import torch
    from torch import nn
    torch.manual_seed(7)
    module, inputs, target = modules()[workload.make](**workload.extents(small))
    inputs = [value.bfloat16().float() if value.is_floating_point() else value for value in inputs]
    norms = (nn.BatchNorm2d, nn.LayerNorm)
    with torch.no_grad():
        for part in module.modules():
            for name, value in part.named_parameters(recurse=False):
                if value.ndim > 1:
                    fan = 1 if isinstance(part, nn.Embedding) else value[0].numel()
                    value.copy_(torch.randn_like(value) * fan ** -0.5)
                elif isinstance(part, norms):
                    value.copy_(torch.randn_like(value) * 0.1 + (name == "weight"))
                else:
                    value.copy_(torch.randn_like(value) * 0.02)
            if isinstance(part, nn.BatchNorm2d):
                part.running_mean.copy_(torch.randn_like(part.running_mean) * 0.1)
                part.running_var.copy_(1 + torch.randn_like(part.running_var).abs() * 0.1)
    if not workload.trains:
        module.eval()
        fold_norms(module)
    return module, inputs, target


def fold_norms(module):
    """Folds each batch norm into the convolution before it."""
    from torch import nn
    from torch.nn.utils.fusion import fuse_conv_bn_eval
    for part in module.modules():
        if not isinstance(part, nn.Sequential):
            continue
        for i in range(len(part) - 1):
            if isinstance(part[i], nn.Conv2d) and isinstance(part[i + 1], nn.BatchNorm2d):
                part[i], part[i + 1] = fuse_conv_bn_eval(part[i], part[i + 1]), nn.Identity()


def loss_of(workload):
    """The loss in torch: (output, target) -> scalar, in float32."""
    from torch.nn import functional as F
    return {CLASSES: lambda out, to: F.cross_entropy(out.float().flatten(0, -2), to.flatten()),
            SQUARES: lambda out, to: F.mse_loss(out.float(), to),
            BINARY: lambda out, to: F.binary_cross_entropy_with_logits(out.float(), to),
            }[workload.loss]


def count_flops(workload, small=False):
    """Flops of the matrix products and convolutions; excludes the gradient of the network's input."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode
    if workload.make == "update":
        return 0
    module, inputs, target = build(workload, small)
    module, inputs = module.to("meta"), [value.to("meta") for value in inputs]
    with FlopCounterMode(display=False) as counter, torch.set_grad_enabled(workload.trains):
        out = module(*inputs)
        if workload.trains:
            out.sum().backward()
    return counter.get_total_flops()


def export(workload, path, storage="float32", small=False):
    """Writes the model as ONNX, with batch norms kept for a training step; returns its inputs."""
    import logging
    import warnings
    import torch
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    module, inputs, _ = build(workload, small)
    module.eval()
    if storage != "float32":
        low = getattr(torch, storage)
        module = module.to(low)
        inputs = [value.to(low) if value.is_floating_point() else value for value in inputs]
    keep = {"training": torch.onnx.TrainingMode.PRESERVE, "do_constant_folding": False}
    names = [f"x{i}" for i in range(len(inputs))]
    with torch.no_grad():
        torch.onnx.export(module, tuple(inputs), str(path), dynamo=False, opset_version=18,
                          input_names=names, output_names=["y"],
                          **(keep if workload.trains else {}))
    return dict(zip(names, inputs))
