"""The steps of planted.py and decoder.py as a user of jax writes them, on the same mesh of 2 x 4: scripts/beside_others.py compiles them."""
import jax
import jax.numpy as jnp
from jax.sharding import AxisType, NamedSharding, PartitionSpec

DIM, HIDDEN, EXPERTS, TOKENS = 128, 512, 8, 64  # of planted.py
WIDTH, HEADS, INNER, LENGTH, BATCH = 256, 8, 768, 512, 4  # of decoder.py; the batch is of both groups of dp
MESH = jax.make_mesh((2, 4), ("dp", "tp"), axis_types=(AxisType.Auto, AxisType.Auto))


def at(*axes):
    return NamedSharding(MESH, PartitionSpec(*axes))


def tensor(shape, *axes):
    return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=at(*axes))


def see(name, value):
    """Where the compiler puts a value of the step: jax tells it in a callback while it compiles."""
    jax.debug.inspect_array_sharding(value, callback=lambda sharding: SEEN.__setitem__(name, (value.shape, sharding)))


SEEN = {}


def step_of(loss):
    """A step of plain gradient descent."""

    def step(params, x):
        gradient = jax.grad(loss)(params, x)
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, gradient)

    return step


def gathering(params, x):
    """Gate and up are one weight, cut along its columns: the split gathers."""
    both = x.mean(axis=0, keepdims=True) @ params["gate_up"]
    see("both", both)
    gate, up = jnp.split(both, 2, axis=-1)  # moves `both`
    return jnp.sum(((jax.nn.silu(gate) * up) @ params["down"]) ** 2)


def router(check_vma):
    """Tokens are cut over tp, and the gate's gradient is taken inside: with check_vma=False nobody sums it."""

    def local(params, x):
        def loss(params):
            scores = jax.nn.softmax(x @ params["gate"])  # the gradient of gate is one of these tokens alone
            return jnp.sum((x * (scores @ params["experts"])) ** 2)

        gradient = jax.grad(loss)(params)
        see("gradient", gradient["gate"])
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, gradient)

    whole = {"gate": PartitionSpec(), "experts": PartitionSpec()}
    return jax.shard_map(local, mesh=MESH, in_specs=(whole, PartitionSpec(("dp", "tp"))), out_specs=whole, check_vma=check_vma)


def norm(x):
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-5)


def attention(params, x):
    shape = (*x.shape[:2], HEADS, WIDTH // HEADS)
    q, k, v = (jnp.reshape(x @ params[name], shape) for name in ("wq", "wk", "wv"))
    scores = jnp.einsum("bqhk,bshk->bhqs", q, k) * shape[-1] ** -0.5
    scores = jnp.where(jnp.tril(jnp.ones((LENGTH, LENGTH), bool)), scores, -jnp.inf)
    return jnp.reshape(jnp.einsum("bhqs,bshk->bqhk", jax.nn.softmax(scores, axis=-1), v), x.shape) @ params["wo"]


def feed_forward(params, x):
    return (jax.nn.silu(x @ params["w1"]) * (x @ params["w3"])) @ params["w2"]


def decoder(params, x):
    """FSDP over dp, tensor and sequence parallelism over tp; what was summed is whole, and the residual is cut."""
    constrained, whole, cut = jax.lax.with_sharding_constraint, at("dp", None, None), at("dp", "tp", None)
    with jax.named_scope("attention"):
        attended = constrained(attention(params, constrained(norm(x), whole)), whole)
    see("attended", attended)
    h = constrained(x + attended, cut)
    with jax.named_scope("feed_forward"):
        forwarded = constrained(feed_forward(params, constrained(norm(h), whole)), whole)
    return jnp.mean(constrained(h + forwarded, cut) ** 2)


def programs():
    """Name: the step and its arguments, as shapes and shardings alone."""
    split = {"gate_up": tensor((DIM, 2 * HIDDEN), None, "tp"), "down": tensor((HIDDEN, DIM), "tp", None)}
    routed = {"gate": tensor((DIM, EXPERTS)), "experts": tensor((EXPERTS, DIM))}
    layer = {name: tensor((WIDTH, WIDTH), "dp", "tp") for name in ("wq", "wk", "wv")}
    layer |= {"wo": tensor((WIDTH, WIDTH), "tp", "dp"), "w1": tensor((WIDTH, INNER), "dp", "tp"),
              "w3": tensor((WIDTH, INNER), "dp", "tp"), "w2": tensor((INNER, WIDTH), "tp", "dp")}
    rows = tensor((2 * TOKENS, DIM), "dp", None)
    tokens = tensor((2 * 4 * TOKENS, DIM), ("dp", "tp"), None)
    text = tensor((BATCH, LENGTH, WIDTH), "dp", "tp", None)
    return {"split": (step_of(gathering), (split, rows)),
            "router": (router(check_vma=True), (routed, tokens)),
            "router, check_vma=False": (router(check_vma=False), (routed, tokens)),
            "decoder": (step_of(decoder), (layer, text))}
