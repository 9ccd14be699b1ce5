"""Usual paths of keys, passwords, sessions and histories: one list for the device and the policy.

The device shows these places only to calls that an operator approved (`core.device.private_places`).
The policy requires approval for a call that names such a place. Histories are included because passwords are
typed at prompts. Keys in other places must be listed in `private_paths` of device.toml.
"""

from __future__ import annotations

import posixpath
import re

_KEYS = (
    *(".ssh", ".gnupg", ".pki", ".age", ".config/age", ".config/sops", ".password-store", ".vault-token"),
    *(".netrc", ".authinfo", ".authinfo.gpg", ".pgpass", ".my.cnf", ".mylogin.cnf", ".smbcredentials"),
    *(".git-credentials", ".config/git/credentials", ".config/gh", ".config/hub", ".config/glab-cli"),
    *(".npmrc", ".yarnrc", ".yarnrc.yml", ".pypirc", ".cargo/credentials", ".cargo/credentials.toml"),
    *(".gem/credentials", ".m2/settings.xml", ".m2/settings-security.xml", ".gradle/gradle.properties"),
    *(".composer/auth.json", ".config/composer/auth.json", ".subversion/auth", ".davfs2/secrets"),
    *(".fetchmailrc", ".mbsyncrc", ".msmtprc", ".config/msmtp", ".config/filezilla", ".local/share/remmina"),
    *(".Xauthority", ".ICEauthority", ".env"),
)
_CLOUDS = (
    *(".aws", ".azure", ".config/gcloud", ".kube", ".oci", ".aliyun", ".s3cfg", ".boto", ".config/doctl"),
    *(".config/hcloud", ".config/linode-cli", ".config/heroku", ".config/rclone", ".docker/config.json"),
    *(".config/containers/auth.json", ".config/helm/registry", ".terraform.d/credentials.tfrc.json"),
    *(".terraformrc", ".config/ngrok", ".ngrok2", ".cloudflared", ".config/.wrangler", ".config/stripe"),
    *(".databrickscfg", ".snowsql", ".kaggle", ".huggingface/token", ".cache/huggingface/token"),
    *(".claude/.credentials.json", ".codex/auth.json", ".gemini/oauth_creds.json", ".config/github-copilot"),
)
_KEY_RINGS = (
    *(".local/share/keyrings", ".gnome2/keyrings", ".local/share/kwalletd", ".kde/share/apps/kwallet"),
    *(".kde4/share/apps/kwallet", ".config/keepassxc", ".config/op", ".config/1Password"),
    *(".config/Bitwarden", ".config/Bitwarden CLI", ".electrum", ".bitcoin", ".ethereum", ".config/solana"),
)
_BROWSERS_AND_MAIL = (
    *(".mozilla", ".librewolf", ".thunderbird", ".config/google-chrome", ".config/google-chrome-beta"),
    *(".config/google-chrome-unstable", ".config/chromium", ".config/BraveSoftware", ".config/opera"),
    *(".config/microsoft-edge", ".config/microsoft-edge-beta", ".config/microsoft-edge-dev"),
    *(".config/vivaldi", ".local/share/epiphany", ".local/share/qutebrowser", ".local/share/torbrowser"),
    *("snap/firefox", "snap/chromium", "snap/brave", "snap/opera", "snap/thunderbird"),
    *(".var/app/org.mozilla.firefox", ".var/app/org.mozilla.Thunderbird", ".var/app/com.google.Chrome"),
    *(".var/app/org.chromium.Chromium", ".var/app/com.brave.Browser", ".var/app/com.microsoft.Edge"),
    *(".var/app/com.opera.Opera", ".var/app/com.vivaldi.Vivaldi", ".var/app/org.signal.Signal"),
    *(".config/evolution", ".local/share/evolution", ".config/Signal", ".config/Slack", ".config/discord"),
    *(".config/Element", ".local/share/TelegramDesktop", ".purple"),
)
_HISTORIES = (
    *(".bash_history", ".zsh_history", ".zhistory", ".histfile", ".ash_history", ".ksh_history"),
    *(".sh_history", ".local/share/fish/fish_history", ".python_history", ".node_repl_history"),
    *(".irb_history", ".psql_history", ".mysql_history", ".sqlite_history", ".rediscli_history", ".dbshell"),
    *(".mongodb/mongosh", ".lesshst"),
)
_MAC = (
    *("Library/Keychains", "Library/Cookies", "Library/Safari", "Library/Mail", "Library/Messages"),
    *("Library/Containers/com.apple.Safari", "Library/Application Support/Google/Chrome"),
    *("Library/Application Support/Chromium", "Library/Application Support/BraveSoftware"),
    *("Library/Application Support/Microsoft Edge", "Library/Application Support/Firefox"),
    *("Library/Application Support/Thunderbird", "Library/Thunderbird"),
    *("Library/Application Support/1Password", "Library/Application Support/Slack"),
)
_WINDOWS = (
    *("AppData/Local/Google/Chrome", "AppData/Local/Chromium", "AppData/Local/BraveSoftware"),
    *("AppData/Local/Microsoft/Edge", "AppData/Roaming/Mozilla", "AppData/Roaming/Thunderbird"),
    *("AppData/Local/Microsoft/Credentials", "AppData/Local/Microsoft/Vault"),
    *("AppData/Roaming/Microsoft/Credentials", "AppData/Roaming/Microsoft/Protect"),
    *("AppData/Roaming/Microsoft/Crypto", "AppData/Roaming/Microsoft/Vault"),
    *("AppData/Roaming/gcloud", "AppData/Roaming/GitHub CLI", "AppData/Roaming/rclone"),
)

IN_HOME: tuple[str, ...] = (*_KEYS, *_CLOUDS, *_KEY_RINGS, *_BROWSERS_AND_MAIL, *_HISTORIES)
"""Files and folders below a home folder on any system, written with `/`."""

IN_HOME_ON: dict[str, tuple[str, ...]] = {"darwin": _MAC, "win32": _WINDOWS}
"""Additional files and folders below a home folder on one system, by the value of `sys.platform`."""

ON_SYSTEM: tuple[str, ...] = (
    *("/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/security/opasswd"),
    *("/etc/ssh/ssh_host_rsa_key", "/etc/ssh/ssh_host_ecdsa_key", "/etc/ssh/ssh_host_ed25519_key"),
    *("/etc/ssh/ssh_host_dsa_key", "/etc/ssl/private", "/etc/pki/tls/private", "/etc/letsencrypt"),
    *("/etc/wireguard", "/etc/openvpn", "/etc/ipsec.secrets", "/etc/krb5.keytab", "/etc/ppp/chap-secrets"),
    *("/etc/ppp/pap-secrets", "/etc/NetworkManager/system-connections", "/etc/mysql/debian.cnf"),
    *("/etc/kubernetes/pki", "/etc/kubernetes/admin.conf", "/etc/rancher", "/var/lib/samba/private"),
    *("/var/lib/sss/secrets", "/private/etc/master.passwd", "/etc/master.passwd", "/Library/Keychains"),
)
"""Files and folders that only root can read, given the systems' usual modes."""


def _pattern() -> re.Pattern[str]:
    everywhere = (*IN_HOME, *(place for places in IN_HOME_ON.values() for place in places))
    below = "|".join(re.escape(place.casefold()) for place in everywhere)
    whole = "|".join(re.escape(place.casefold()) for place in ON_SYSTEM)
    return re.compile(rf"(?:(?:^|/)(?:{below})|^(?:{whole}))(?:/|$)")


_PRIVATE = _pattern()


def names_private_place(path: str) -> bool:
    """Whether a path, as written, is or is inside a private place; the file system is not consulted.

    Any folder may be the home: `~/.ssh/id`, `/home/u/.ssh/id`, `$HOME/.ssh` and `work/.npmrc` all match.
    Case is ignored, as some file systems ignore it.
    """
    plain = path.replace("\\", "/").casefold()
    if plain.startswith("//"):
        plain = plain[1:]
    return bool(_PRIVATE.search(plain) or _PRIVATE.search(posixpath.normpath(plain)))
