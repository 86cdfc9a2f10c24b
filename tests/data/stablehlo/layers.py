"""Layers and steps of them as users of jax write them: what scripts/jax_modules.py lowers. The recorded modules name these lines."""


def programs(jax):
    """Name: function and arguments, of shapes and shardings alone."""
    import jax.numpy as jnp
    from jax.sharding import AxisType, NamedSharding, PartitionSpec

    mesh = jax.make_mesh((2, 4), ("dp", "tp"), axis_types=(AxisType.Auto, AxisType.Auto))

    def at(*axes):
        return NamedSharding(mesh, PartitionSpec(*axes))

    def tensor(shape, *axes, dtype=jnp.float32):
        return jax.ShapeDtypeStruct(shape, dtype, sharding=at(*axes))

    def mlp(params, x):
        with jax.named_scope("mlp"):
            hidden = jax.nn.gelu(x @ params["up"])
            hidden = jax.lax.with_sharding_constraint(hidden, at("dp", "tp"))
            return hidden @ params["down"]

    def attention(params, x):
        heads, batch, length, width = 8, *x.shape
        with jax.named_scope("attention"):
            shape = (batch, length, heads, width // heads)
            query, key, value = (jnp.reshape(x @ params[name], shape) for name in ("query", "key", "value"))
            query = jax.lax.with_sharding_constraint(query, at("dp", None, "tp", None))
            scores = jnp.einsum("bqhk,bshk->bhqs", query, key) * (width // heads) ** -0.5
            scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -jnp.inf)
            mixed = jnp.einsum("bhqs,bshk->bqhk", jax.nn.softmax(scores, axis=-1), value)
            return jnp.reshape(mixed, (batch, length, width)) @ params["out"]

    def moe(params, x):
        """Experts over tp, by products with one-hot tables."""
        experts, capacity = params["up"].shape[0], 16
        with jax.named_scope("router"):
            gates = jax.nn.softmax(x @ params["router"])
            weight, chosen = jax.lax.top_k(gates, 2)
            chosen_tke = jax.nn.one_hot(chosen, experts)
            position = jnp.cumsum(jnp.reshape(chosen_tke, (-1, experts)), axis=0).reshape(chosen_tke.shape) * chosen_tke - 1
            slot_tkec = jax.nn.one_hot(position.astype(jnp.int32), capacity)
        with jax.named_scope("experts"):
            sent = jnp.einsum("td,tec->ecd", x, slot_tkec.sum(1))
            sent = jax.lax.with_sharding_constraint(sent, at("tp", None, None))
            hidden = jax.nn.relu(jnp.einsum("ecd,edf->ecf", sent, params["up"]))
            back = jnp.einsum("ecf,efd->ecd", hidden, params["down"])
            return jnp.einsum("ecd,tec->td", back, (slot_tkec * weight[:, :, None, None]).sum(1))

    def moe_exchange(params, x):
        """Experts over tp, tokens over both axes, two exchanges by hand."""
        experts, capacity = params["up"].shape[0], 4

        def local(params, x_td):
            with jax.named_scope("router"):
                gates = jax.nn.softmax(x_td @ params["router"])
                chosen = jax.nn.one_hot(jnp.argmax(gates, -1), experts)
                position = (jnp.cumsum(chosen, axis=0) * chosen - 1).astype(jnp.int32)
                slot_tec = jax.nn.one_hot(position, capacity) * chosen[..., None]
            with jax.named_scope("experts"):
                sent = jnp.einsum("td,tec->ecd", x_td, slot_tec)
                sent = jax.lax.all_to_all(sent, "tp", 0, 1, tiled=True)
                hidden = jax.nn.relu(jnp.einsum("ecd,edf->ecf", sent, params["up"]))
                back = jnp.einsum("ecf,efd->ecd", hidden, params["down"])
                back = jax.lax.all_to_all(back, "tp", 1, 0, tiled=True)
                return jnp.einsum("ecd,tec->td", back, slot_tec) * jnp.max(gates, -1, keepdims=True)

        both = PartitionSpec(("dp", "tp"))
        where = {"router": PartitionSpec(), "up": PartitionSpec("tp"), "down": PartitionSpec("tp")}
        return jax.shard_map(local, mesh=mesh, in_specs=(where, both), out_specs=both)(params, x)

    def stack(params, x):
        """Equal layers in a loop, computed again in the backward pass."""

        @jax.checkpoint
        def layer(x, params):
            with jax.named_scope("layer"):
                return x + mlp(params, x), None

        return jax.lax.scan(layer, x, params)[0]

    def step(layer):
        """A step of plain gradient descent."""

        def loss(params, x, y):
            with jax.named_scope("loss"):
                return jnp.mean((layer(params, x) - y) ** 2)

        def run(params, x, y):
            value, gradient = jax.value_and_grad(loss)(params, x, y)
            with jax.named_scope("update"):
                return value, jax.tree.map(lambda p, g: p - 0.1 * g, params, gradient)

        return run

    matrix = {"up": tensor((256, 1024), None, "tp"), "down": tensor((1024, 256), "tp", None)}
    heads = {name: tensor((256, 256), None, "tp") for name in ("query", "key", "value")}
    heads["out"] = tensor((256, 256), "tp", None)
    experts = {"router": tensor((128, 8), None, None), "up": tensor((8, 128, 256), "tp", None, None),
               "down": tensor((8, 256, 128), "tp", None, None)}
    rows, tokens = tensor((64, 256), "dp", None), tensor((128, 128), "dp", None)
    text, spread = tensor((4, 32, 256), "dp", None, None), tensor((128, 128), ("dp", "tp"), None)
    stacked = {"up": tensor((4, 256, 1024), None, None, "tp"), "down": tensor((4, 1024, 256), None, "tp", None)}
    layers = {"mlp": (mlp, matrix, rows), "stack": (stack, stacked, rows), "attention": (attention, heads, text), "moe": (moe, experts, tokens),
              "moe_exchange": (moe_exchange, experts, spread)}
    made = {}
    for name, (layer, params, x) in layers.items():
        made[name] = (layer, (params, x))
        made[name + "_step"] = (step(layer), (params, x, x))
    return made


def lower(jax, function, arguments):
    return jax.jit(function).lower(*arguments)
