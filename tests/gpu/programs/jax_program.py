"""A small jitted JAX training loop; knows nothing of Overlane."""

import sys

import jax
import jax.numpy as jnp


def loss(weights, batch):
    return jnp.mean((jnp.tanh(batch @ weights[0]) @ weights[1]) ** 2)


@jax.jit
def step(weights, batch):
    gradients = jax.grad(loss)(weights, batch)
    return [w - 1e-3 * g for w, g in zip(weights, gradients, strict=True)]


keys = jax.random.split(jax.random.PRNGKey(0), 3)
weights = [jax.random.normal(keys[0], (512, 1024)), jax.random.normal(keys[1], (1024, 512))]
batch = jax.random.normal(keys[2], (256, 512))
for _ in range(20):
    weights = step(weights, batch)
sys.stdout.write(f"{float(weights[0].sum())}\n")
