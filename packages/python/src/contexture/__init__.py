"""Contexture: fit what a language model sees into its context window.

```python
import contexture

request = {"model": "gpt-5.6", "messages": messages}
response = openai_client.chat.completions.create(**contexture.fit(request, max_tokens=100_000))
```

:func:`fit` makes a request of a provider's API fit. :class:`Client` and :class:`AsyncClient` offer
every operation of the server: sessions, memory, tasks, assembled requests. Adapters for frameworks
are in `contexture.langchain`, `contexture.langgraph`, `contexture.openai_agents`,
`contexture.pydantic_ai`, `contexture.llama_index` and `contexture.anthropic_memory`.
"""

from . import models
from ._default import default_async_client, default_client
from ._fit import afit, fit
from ._transport import UNSET, Unset
from ._version import __version__
from .client import AsyncClient, Client
from .errors import (
    ApiError,
    BinaryNotFoundError,
    ContextureError,
    FrameworkVersionError,
    InvalidAnswerError,
    ServerStartError,
    ServerUnavailableError,
    SessionWarning,
    VersionWarning,
)
from .server import LocalServer

__all__ = [
    "UNSET",
    "ApiError",
    "AsyncClient",
    "BinaryNotFoundError",
    "Client",
    "ContextureError",
    "FrameworkVersionError",
    "InvalidAnswerError",
    "LocalServer",
    "ServerStartError",
    "ServerUnavailableError",
    "SessionWarning",
    "Unset",
    "VersionWarning",
    "__version__",
    "afit",
    "default_async_client",
    "default_client",
    "fit",
    "models",
]
