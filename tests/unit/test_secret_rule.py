"""Which names of arguments are names of secrets, and which only contain such a word."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import BadInput
from core.home import Home
from core.secret_rule import KNOWN_NAMES, SecretNames
from core.settings import Settings

SECRET = """
password db_password dbPassword PGPASSWORD MYSQL_PWD pwd passwd passwd2 userpwd pass passphrase passcode
passkey passwordHash password_hash new_password password_confirm password1 user.password user[password]
HTTPPassword secret client_secret client_secret_value clientSecretValue webhook_secret
aws_secret_access_key token accessToken access_token refresh_tokens tokens idToken sas_token token_1
GITHUB_TOKEN OAuth2Token apiKey api-key X-Api-Key apikeys APIKey access_key private_key privateKeyPem
private_key_pem signing_key signingKey encryption_key masterKey secretKey shared_key account_key
subscription_key psk auth auth_header basic_auth x-auth-token authorization Authorization
Proxy-Authorization bearer bearerToken cookie cookies Set-Cookie sessionid PHPSESSID JSESSIONID jwt otp
otp_code totp mfa_code mfaCode 2fa_code one_time_code verification_code recovery_code recoveryCodes
backup_codes pin pin_code card_pin cvv cvc ssn card_number seed_phrase mnemonic connection_string
connectionString dsn credentials creds
""".split()
PLAIN = """
author authors authority authenticated auth_type auth_url pinned pinning pins spin pinterest passenger
passage compass bypass passes passed pass_through tokenizer tokenize token_count token_url token_type
max_tokens maxTokens max_output_tokens prompt_tokens n_tokens stop_tokens key keys key_name key_id
access_key_id public_key primary_key foreign_key sort_key ssh_public_key hotkey monkey keyboard
password_file password_policy password_hint secret_name secretary session_id sessionId username user_name
file_path path text content command code error_code status_code zip_code country_code phone_number
order_number account_number cookie_policy certificate cert sha256 commit_hash hash header headers body
data env description value name id limit offset timeout working_directory cwd
""".split()


def test_the_name_of_a_secret_is_one() -> None:
    names = {*SECRET, *(name.upper() for name in SECRET if name.islower())}
    assert {name for name in names if not KNOWN_NAMES.match(name)} == set()


def test_a_name_that_only_contains_such_a_word_is_none() -> None:
    assert {name for name in PLAIN if KNOWN_NAMES.match(name)} == set()


def test_letters_that_only_look_different_make_the_same_name() -> None:
    assert KNOWN_NAMES.match("ｐａｓｓｗｏｒｄ")


@pytest.mark.parametrize("name", ["", "_", "1", "-" * 10_000, "a" * 100_000, "A1" * 50_000, "pässwörd\ud800"])
def test_odd_names_are_names_of_nothing(name: str) -> None:
    assert not KNOWN_NAMES.match(name)


def test_of_a_very_long_name_its_end_counts() -> None:
    assert KNOWN_NAMES.match("x_" * 50_000 + "password")


class TestAdded:
    @pytest.mark.parametrize(
        ("added", "name", "is_one"),
        [
            ("badge", "badge", True),
            ("badge", "employeeBadge", True),
            ("badge", "BADGE", True),
            ("badge", "badge_number", False),
            ("badge", "badges", False),
            ("door code", "front_door_code", True),
            ("door_code", "frontDoorCode", True),
            ("door_code", "code", False),
            ("*_nonce", "a_nonce", True),
            ("*_nonce", "A_NONCE", True),
            ("*_nonce", "nonce", False),
            ("x-??-mark", "X-ab-Mark", True),
            ("x-??-mark", "x-abc-mark", False),
            ("patient*", "patientName", True),
        ],
    )
    def test_a_name_counts_at_the_end_and_a_pattern_as_a_whole(
        self, added: str, name: str, is_one: bool
    ) -> None:
        assert SecretNames([added]).match(name) is is_one
        assert not KNOWN_NAMES.match(name)

    def test_the_known_ones_stay(self) -> None:
        assert SecretNames(["badge"]).match("password")

    def test_a_pattern_of_many_stars_takes_no_time(self) -> None:
        names = SecretNames(["*a" * 90 + "b"])
        assert not names.match("a" * 100_000)

    def test_settings_add_names_and_refuse_what_would_hide_everything(self, tmp_path: Path) -> None:
        home = Home(tmp_path).create()
        settings = tmp_path / "settings.toml"
        settings.write_text('secret_names = ["badge", "*_nonce"]\n')
        assert Settings.read(home.settings).secret_names == ["badge", "*_nonce"]
        for wrong in ('["*"]', '["a*"]', '[""]', '["??"]', '"badge"', "[1]", '["' + "x" * 201 + '"]'):
            settings.write_text(f"secret_names = {wrong}\n")
            with pytest.raises(BadInput, match="secret_names"):
                Settings.read(home.settings)
