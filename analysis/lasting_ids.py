"""Short ids of settings and cells for links: made from what they are, never from a place in a list."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def lasting_id(*parts: Any) -> str:
    """The same for the same parts, in every process and whatever else there is by then."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:8]
