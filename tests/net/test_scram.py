"""SCRAM-SHA-256: the computations, challenges for identities that nobody knows, and what wrong secrets cost."""

import base64
from pathlib import Path

import pytest

from resprout.core.errors import UsageError
from resprout.net.identity.proofs import BY_NAME, LoginSecret, OpenerLogin, ProofError
from resprout.net.identity.rules import (
    DELAY_S_MAX,
    FREE_FAILURES,
    FREE_FAILURES_OF_ALL,
    PERIOD_S,
    LoginBook,
    LoginThrottle,
    Rules,
    read_rules,
)
from resprout.net.identity.scram import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    Verifier,
    auth_message,
    derive_keys,
    is_signature,
    make_proof,
    make_verifier,
    read_verifier,
    verifier_of_password,
    verifier_of_token,
)
from resprout.net.sessions import Challenge, Login, ProofAccepted, ProofOfSecret, Salt

NONCE = "a-nonce-of-a-client"


def rules_of(tmp_path: Path, **secrets: list[Verifier]) -> Rules:
    file = tmp_path / "rules.toml"
    tables = [
        f'[[identity]]\nname = "{name}"\nsecrets = [{", ".join(f"{str(one)!r}" for one in verifiers)}]\n'
        for name, verifiers in secrets.items()
    ]
    file.write_text("".join(tables))
    return read_rules(file)


def test_the_exchange_of_rfc_7677_has_its_proof_and_its_signature() -> None:
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    message = auth_message("user", "rOprNGfwEbeRWgbNEkqO", nonce, salt, 4096, "n,,", b"")
    keys = derive_keys("pencil", salt, 4096)
    proof = make_proof(keys, message)
    assert base64.b64encode(proof) == b"dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    verifier = make_verifier("pencil", salt, 4096)
    assert base64.b64encode(verifier.signature(message)) == b"6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert verifier.accepts(message, proof) and is_signature(keys, message, verifier.signature(message))
    for wrong in (bytes(32), proof[:-1], b"", proof[::-1]):
        assert not verifier.accepts(message, wrong)
    assert not verifier.accepts(message + b"x", proof), "a proof is for one exchange"


def test_a_verifier_is_written_and_read_and_holds_no_secret() -> None:
    for made in (verifier_of_token("0123456789"), make_verifier("a secret", b"salt", ITERATIONS_MIN)):
        assert read_verifier(str(made)) == made and "secret" not in str(made)
    sound = str(verifier_of_token("0123456789"))
    for wrong in (
        "", "sha256:abc", sound[:-1], sound + "=", sound.replace("$4096:", "$1:"), sound.replace("$4096:", "$x:"),
        sound.replace("SHA-256", "SHA-1"), sound + "$", sound.replace("$4096:", f"${ITERATIONS_MAX + 1}:"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match="this is no SCRAM-SHA-256 verifier"):
            read_verifier(wrong)
    with pytest.raises(UsageError, match="at least 8 letters"):
        verifier_of_password("short")


@pytest.mark.parametrize(
    ("challenge", "fault"),
    [
        (Challenge("another", (Salt(b"salt", 4096),)), "is not an answer to this login"),
        (Challenge("{nonce}", (Salt(b"salt", 4096),)), "is not an answer to this login"),
        (Challenge("{nonce}x", (Salt(b"salt", 1),)), "asks for 1 iterations"),
        (Challenge("{nonce}x", (Salt(b"salt", 1 << 40),)), "asks for 1099511627776 iterations"),
        (Challenge("{nonce}x", (Salt(b"", 4096),)), "a salt of 0 bytes"),
        (Challenge("{nonce}x", ()), "asks for 0 secrets"),
        (Challenge("{nonce}x", (Salt(b"salt", 4096),) * 100), "asks for 100 secrets"),
    ],
)
def test_a_client_does_not_compute_whatever_a_broker_asks_for(challenge: Challenge, fault: str) -> None:
    """Few iterations make guessing cheap for a hostile broker, many keep the client busy."""
    login = OpenerLogin(LoginSecret("teller", "secret"), b"", "b0")
    asked = Challenge(challenge.nonce.format(nonce=login.begin().nonce), challenge.salts)
    assert login.work_for(asked) is None
    with pytest.raises(ProofError, match=fault):
        login.hear(asked)


def test_a_client_believes_no_acceptance_of_a_secret_that_it_was_not_asked_for() -> None:
    login = OpenerLogin(LoginSecret("teller", "secret"), b"", "b0")
    login.hear(Challenge(f"{login.begin().nonce}x", (Salt(b"salt", ITERATIONS_MIN),)))
    with pytest.raises(ProofError, match="does not answer a login as a broker does"):
        login.hear(ProofAccepted(1, b"x" * 32))


def test_an_unknown_identity_is_challenged_like_a_known_one(tmp_path: Path) -> None:
    token, password = verifier_of_token("0123456789"), make_verifier("correct horse", b"x" * 16, 5000)
    rules = rules_of(tmp_path, teller=[token], boss=[password, token])
    book = LoginBook(rules.identities)
    shapes = {tuple((len(one.salt), one.iterations) for one in known.secrets) for known in rules.identities.values()}
    for name in [f"nobody-{number}" for number in range(20)]:
        salts = book.begin(Login(name, NONCE)).challenge.salts
        assert tuple((len(one.salt), one.iterations) for one in salts) in shapes
        assert salts == book.begin(Login(name, NONCE)).challenge.salts, "it is the same each time"
        assert salts == LoginBook(rules.identities).begin(Login(name, NONCE)).challenge.salts, "and after a restart"
    salts_of_all = {book.begin(Login(f"nobody-{n}", NONCE)).challenge.salts for n in range(20)}
    assert len(salts_of_all) == 20, "each has its own"


def test_no_proof_is_right_for_an_unknown_identity_and_it_is_computed_all_the_same(tmp_path: Path) -> None:
    book = LoginBook(rules_of(tmp_path, teller=[verifier_of_token("0123456789")]).identities)
    for name, secret, is_right in (
        ("teller", "0123456789", True),
        ("teller", "x", False),
        ("who", "0123456789", False),
    ):
        client = OpenerLogin(LoginSecret(name, secret), b"", "b0")
        pending = book.begin(client.begin())
        proof = client.hear(pending.challenge)
        assert isinstance(proof, ProofOfSecret)
        accepted = pending.check(proof, BY_NAME, b"b0")
        assert (accepted is not None) is is_right
        assert pending.check(ProofOfSecret(()), BY_NAME, b"b0") is None
        if accepted is not None:
            with pytest.raises(ProofError, match="does not hold the verifier"):
                client.hear(ProofAccepted(0, bytes(32)))
            client.hear(accepted)
            assert client.is_over


def test_one_of_two_secrets_will_do_while_they_are_changed(tmp_path: Path) -> None:
    both = [verifier_of_token("the old one"), verifier_of_token("the new one")]
    book = LoginBook(rules_of(tmp_path, teller=both).identities)
    for which, secret in enumerate(("the old one", "the new one")):
        client = OpenerLogin(LoginSecret("teller", secret), b"", "b0")
        pending = book.begin(client.begin())
        proof = client.hear(pending.challenge)
        assert isinstance(proof, ProofOfSecret)
        accepted = pending.check(proof, BY_NAME, b"b0")
        assert accepted is not None and accepted.which == which
        client.hear(accepted)


def test_wrong_secrets_delay_the_next_challenge_of_that_identity_and_address_only() -> None:
    throttle = LoginThrottle()
    for failures in range(40):
        before = throttle.delay_s("teller", "192.0.2.1", 0.0)
        assert (before == 0.0) is (failures < FREE_FAILURES) and before <= DELAY_S_MAX
        throttle.failed("teller", "192.0.2.1", 0.0)
    assert throttle.delay_s("teller", "192.0.2.1", 0.0) == DELAY_S_MAX
    assert throttle.delay_s("teller", "192.0.2.2", 0.0) == 0.0, "elsewhere it is as before"
    assert throttle.delay_s("boss", "192.0.2.1", 0.0) == 0.0, "and for others there"
    assert throttle.delay_s("teller", "192.0.2.1", PERIOD_S + 1) == 0.0, "and after a while"
    for number in range(FREE_FAILURES_OF_ALL):
        throttle.failed(f"guess-{number}", "192.0.2.3", 0.0)
        throttle.failed("teller", f"198.51.100.{number}", 0.0)
    assert throttle.delay_s("boss", "192.0.2.3", 0.0) > 0.0, "many identities are tried from there"
    assert throttle.delay_s("teller", "203.0.113.1", 0.0) > 0.0, "this one is tried from everywhere"
