"""Tokens for a REST catalog (`auth.type: oauth2`), whose provider is asked with a time-out.

PyIceberg asks it with none, under a lock, and not through the catalog's session. A provider that takes a connection and says
nothing would hold everybody who asks the catalog, for ever.
"""

from collections.abc import Callable

from pyiceberg.catalog.rest.auth import AuthManager, OAuth2AuthManager, OAuth2TokenProvider
from requests import Session

from isotherm.runtime.clock import monotonic_s


def bound_tokens(manager: AuthManager | None, session: Callable[[], Session]) -> None:
    """Have a manager ask for its tokens through sessions whose requests end; other kinds do so already."""
    if isinstance(manager, OAuth2AuthManager):
        theirs = manager.token_provider
        manager.token_provider = _Tokens(
            theirs.client_id,
            theirs.client_secret,
            theirs.token_url,
            theirs.scope,
            theirs.refresh_margin,
            theirs.expires_in,
        )
        manager.token_provider.session = session


class _Tokens(OAuth2TokenProvider):
    """PyIceberg's, with another way to the provider."""

    session: Callable[[], Session]

    def _refresh_token(self) -> None:
        asked = {"grant_type": "client_credentials"} | ({"scope": self.scope} if self.scope else {})
        headers = {"Authorization": self._client_secret_header}
        with self.session() as session:
            answer = session.post(self.token_url, data=asked, headers=headers)
            answer.raise_for_status()
            told = answer.json()
        self._token = told["access_token"]
        lasts_s = told.get("expires_in", self.expires_in)
        if lasts_s is None:
            raise ValueError(f"{self.token_url} does not say `expires_in`, nor does `auth.oauth2`")
        self._expires_at = monotonic_s() + lasts_s - self.refresh_margin
