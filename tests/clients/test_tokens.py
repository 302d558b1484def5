"""Tokens of an OAuth2 provider are asked for as PyIceberg asks, but through a session of ours."""

from io import BytesIO

from pyiceberg.catalog.rest.auth import BasicAuthManager, OAuth2AuthManager
from requests import Response, Session

from isotherm.clients.tokens import bound_tokens


class Sent(Session):
    """Answers by itself, and keeps what was sent."""

    def __init__(self, sent):
        super().__init__()
        self._sent = sent

    def send(self, request, **_):
        self._sent.append((request.method, request.url, request.body, request.headers["Authorization"]))
        answer = Response()
        answer.status_code = 200
        answer.raw = BytesIO(b'{"access_token": "t"}')
        return answer


def test_a_token_is_asked_for_once_and_what_is_sent_is_what_pyiceberg_sends():
    sent = []
    manager = OAuth2AuthManager("a", "b", "http://127.0.0.1:1/token", scope="catalog", expires_in=3600)
    bound_tokens(manager, lambda: Sent(sent))

    assert [manager.auth_header() for _ in range(2)] == ["Bearer t", "Bearer t"]
    body = "grant_type=client_credentials&scope=catalog"
    assert sent == [("POST", "http://127.0.0.1:1/token", body, "Basic YTpi")]


def test_a_manager_of_another_kind_stays_as_it_is():
    manager = BasicAuthManager("a", "b")
    bound_tokens(manager, Session)

    assert manager.auth_header() == "Basic YTpi"
