"""All families of the oracle, registered."""
import oracle_arithmetic  # noqa: F401
import oracle_arrange  # noqa: F401
import oracle_index  # noqa: F401
import oracle_layers  # noqa: F401
import oracle_pointwise  # noqa: F401
import oracle_products  # noqa: F401
import oracle_reduce  # noqa: F401
import oracle_scan  # noqa: F401
import oracle_views  # noqa: F401
import oracle_windows  # noqa: F401
from oracle import OPS, find  # noqa: F401
