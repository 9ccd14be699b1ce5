"""Programs that reach other computers, and those that set up the network."""

from __future__ import annotations

from core.programs.record import CRITICAL, HIGH, MEDIUM, Program, program, sends, wraps, writes
from core.programs.sentences import (
    CONNECTS,
    GIVES_A_PROGRAM,
    MIRRORS,
    MOUNTS,
    NETWORK_SETTINGS,
    OPENS_A_WAY,
    TALKS,
    WAITS,
)

SSH_RUNS = "-o=ProxyCommand -o=LocalCommand -o=KnownHostsCommand -o=RemoteCommand"

# fmt: off
NETWORK: tuple[Program, ...] = (
    # Fetch and send.
    program("curl", kinds="downloads",
        options="-A -b -C -E -e -H -m -P -Q -r -t -U -u -w -X -x -Y -y -z --cacert --cert --connect-timeout "
        "--continue-at --cookie --data-raw --form-string --header --interface --key --limit-rate --max-time "
        "--output-dir --proxy --proxy-user --range --referer --request --resolve --retry --time-cond "
        "--unix-socket --url --user --user-agent --write-out", loads="--config --engine -K",
        changes=[("", TALKS, MEDIUM)],
        writes=writes("-o --output -D --dump-header -c --cookie-jar --trace --trace-ascii --stderr "
        "--etag-save --hsts --libcurl", operand="fetched", unless="--no-clobber",
        needs="-O --remote-name --remote-name-all"), sends=sends("-T --upload-file --post-file --body-file",
        "-d --data --data-ascii --data-binary --data-urlencode --json -F --form",
        "-k --insecure --no-check-certificate"), asks="network"),
    program("wget", kinds="downloads",
        options="-A -B -D -I -i -l -n -P -Q -R -T -t -U -w -X --accept --base --body-data --ca-certificate "
        "--certificate --directory-prefix --domains --header --input-file --level --limit-rate "
        "--load-cookies --method --password --post-data --private-key --quota --referer --reject "
        "--start-pos --timeout --tries --user --user-agent --wait --warc-file", runs="--use-askpass",
        loads="--config --execute -e", changes=[("", TALKS, MEDIUM)],
        writes=writes("-O --output-document -o --output-file --save-cookies", adds_to="-a --append-output"),
        sends=sends("--upload-file --post-file --body-file", unchecked="--insecure --no-check-certificate"),
        asks="network"),
    program("http https", kinds="downloads",
        options="-A -a -B -D -e -I -i -l -O -o -P -Q -R -T -t -U -w -X --body-data --directory-prefix "
        "--header --input-file --output-document --password --post-data --timeout --user --user-agent",
        changes=[("", TALKS, MEDIUM)],
        sends=sends("--upload-file --post-file --body-file", unchecked="--insecure --no-check-certificate")),
    program("aria2c fetch irm iwr", kinds="downloads", changes=[("", TALKS, MEDIUM)]),
    program("ftp", kinds="downloads", changes=[("", TALKS, MEDIUM), ("", CONNECTS, MEDIUM)], asks="network"),
    program("lynx", kinds="downloads", ordinary=True, changes=[("", TALKS, MEDIUM)]),
    program("nc ncat netcat", kinds="downloads sockets", options="-i -p -q -s -w", runs="-c --sh-exec",
        changes=[("", TALKS, MEDIUM)],
        each=[(r"(?i:-\w*[ec]\w*|--(?:sh-)?exec.*)", GIVES_A_PROGRAM, CRITICAL),
        (r"(?i:-\w*l.*|--listen.*|(?:TCP\d?|UDP\d?)-LISTEN.*)", WAITS, HIGH)], asks="network"),
    program("socat", kinds="downloads sockets", changes=[("", TALKS, MEDIUM)],
        each=[("(?i:(?:EXEC|SYSTEM):.*)", GIVES_A_PROGRAM, CRITICAL),
        (r"(?i:-\w*l.*|--listen.*|(?:TCP\d?|UDP\d?)-LISTEN.*)", WAITS, HIGH)]),
    program("rclone", changes=[("sync|delete|deletefile|purge|move|moveto|rmdir|rmdirs|cleanup|bisync",
        "Deletes files, here or elsewhere", HIGH), ("", TALKS, MEDIUM)]),
    # Reach a shell or files elsewhere.
    program("slogin ssh", kinds="remote-shell", ordinary="ssh",
        options="-B -b -c -D -E -e -i -J -L -l -m -O -P -p -Q -R -S -W -w", runs=SSH_RUNS, loads="-F -I",
        changes=[("", CONNECTS, MEDIUM)], each=[("-[fNnTCq]*[RLDW].*", OPENS_A_WAY, HIGH)],
        reads=[("-V|-Q|-G", "[^-].*")], wraps=wraps(1, looks="-G -Q -V", shell=True), asks="network"),
    program("autossh", options="-B -b -c -D -E -e -i -J -L -l -M -m -O -P -p -R -S -W -w", runs=SSH_RUNS,
        loads="-F -I", changes=[("", CONNECTS, MEDIUM)], wraps=wraps(1, shell=True)),
    program("mosh", options="-p --port --predict --ssh", changes=[("", CONNECTS, MEDIUM)],
        wraps=wraps(1, after="--", shell=True)),
    program("sshfs", options="-B -b -c -D -E -e -i -J -L -l -m -O -P -p -Q -R -S -W -w", runs=SSH_RUNS,
        loads="-F -I", changes=[("", MOUNTS, HIGH)]),
    program("scp", kinds="writes-last", options="-c -D -i -J -l -P -X", runs=SSH_RUNS + " -S", loads="-F",
        changes=[("", CONNECTS, MEDIUM)], writes=writes(operand="last"), asks="network"),
    program("sftp", options="-B -b -c -i -J -l -P -R -s -X", runs=SSH_RUNS + " -S -D", loads="-F",
        changes=[("", CONNECTS, MEDIUM)], asks="network"),
    program("rrsync rsync", kinds="writes-last", ordinary="rsync",
        options="-@ -B -f -M -T --backup-dir --block-size --bwlimit --chmod --chown --compare-dest "
        "--copy-dest --exclude --exclude-from --files-from --filter --include --include-from --link-dest "
        "--log-file --max-size --min-size --partial-dir --password-file --port --remote-option --suffix "
        "--temp-dir --timeout", runs="-e --rsh --rsync-path",
        changes=[(r"[^/\s]+:.*|rsync://.*", CONNECTS, MEDIUM)],
        always=[("--delete.*|--remove-source-files", MIRRORS, HIGH)],
        writes=writes(operand="last", unless="-n --dry-run --list-only --ignore-existing -b --backup"),
        asks="network"),
    program("rlogin rpcclient rsh smbclient telnet tftp", changes=[("", CONNECTS, MEDIUM)], asks="network"),
    program("sshpass", options="-d -f -P -p", wraps=wraps(looks="-V")),
    program("ssh-agent", options="-a -E -O -P -t", wraps=wraps()),
    program("ssh-copy-id", always=[("", "Decides who may log in without a password", HIGH)]),
    # Mail, ways in, and what listens or probes.
    program("mail mailx msmtp s-nail sendmail swaks", changes=[("", "Sends mail over the network", MEDIUM)]),
    program("mutt neomutt", options="-a -b -c -i -s", runs="-e", loads="-F",
        changes=[("", "Sends mail over the network", MEDIUM)]),
    program("bore chisel cloudflared frpc localtunnel lt ngrok", changes=[("", OPENS_A_WAY, HIGH)]),
    program("openssl", kinds="output-option",
        options="-CAfile -config -days -in -inkey -passin -passout -subj", single=True,
        loads="-engine -provider -provider-path", changes=[("s_client", TALKS, MEDIUM),
        ("s_server", WAITS, HIGH)], writes=writes("-out -keyout")),
    program("tcpdump", options="-B -C -c -D -E -F -G -i -M -m -r -s -T -W -w -y", runs="-z",
        changes=[("", "Listens in on the network", MEDIUM)], asks="network"),
    program("dumpcap tshark", changes=[("", "Listens in on the network", MEDIUM)]),
    program("nmap", options="-e -g -i -o -p -S", loads="--datadir --script",
        changes=[("", "Probes other computers over the network", MEDIUM)], asks="network"),
    program("hping3 masscan nikto", changes=[("", "Probes other computers over the network", MEDIUM)]),
    program("dig drill host nslookup ping", kinds="looks-up", asks="network"),
    program("arp mtr ping6 tracepath traceroute whois", asks="network"),
    program("netstat nstat ss", asks="sockets"),
    # The firewall and the network settings.
    program("ip6tables iptables", changes=[("", NETWORK_SETTINGS, HIGH)],
        reads=[(r"-\w*[LS]\w*|--list\S*|-V", "-[FXPADIRNZE]|--(?:flush|policy|append|delete|insert)")],
        asks="network"),
    program("nft", changes=[("", NETWORK_SETTINGS, HIGH)], reads=[("list|-v|monitor|describe", "")],
        asks="network"),
    program("ufw", changes=[("", NETWORK_SETTINGS, HIGH)], reads=[("status|show|version", "")]),
    program("firewall-cmd", changes=[("", NETWORK_SETTINGS, HIGH)],
        reads=[(r"--(?:list|get|query|state|info)\S*",
        r"--(?:add|remove|set|reload|panic|complete|new|delete)\S*")]),
    program("pfctl", changes=[("", NETWORK_SETTINGS, HIGH)], reads=[(r"-s\S*|-v\S*", r"-[FdefN]\S*")]),
    program("netsh", changes=[("", NETWORK_SETTINGS, HIGH)], reads=[("show|dump", "set|add|delete|reset")]),
    program("ipset", changes=[("", NETWORK_SETTINGS, HIGH)], reads=[("list|-L|test", "")]),
    program("arptables dhclient ebtables ifdown ifup ip6tables-restore iptables-restore nftables wpa_cli",
        changes=[("", NETWORK_SETTINGS, HIGH)]),
    program("ip", changes=[("set|add|del|delete|flush|change|replace|append|up|down|netns", NETWORK_SETTINGS,
        HIGH)], reads=[("show|list|ls|lst|get|monitor|help|identify|pids",
        "set|add|del|delete|flush|change|replace|append|exec")], asks="network"),
    program("ifconfig", changes=[(r"up|down|add|del|inet|netmask|hw|mtu|\d+\.\d+\.\d+\.\d+\S*",
        NETWORK_SETTINGS, HIGH)], asks="network"),
    program("route", changes=[("add|del|delete|flush|change", NETWORK_SETTINGS, HIGH)], asks="network"),
    program("tc", changes=[("add|del|delete|change|replace|flush", NETWORK_SETTINGS, HIGH)]),
    program("nmcli",
        changes=[("up|down|add|delete|del|modify|mod|off|on|disconnect|connect|edit|import|clone",
        NETWORK_SETTINGS, HIGH)], asks="services"),
    program("brctl bridge ethtool iw iwconfig rfkill",
        changes=[("set|add|del|block|unblock|power|essid|addbr|delbr|addif|-s|-K|-C|-G", NETWORK_SETTINGS,
        HIGH)], asks="network"),
    program("networkctl networksetup resolvectl scutil",
        changes=[(r"dns|domain|revert|flush-caches|up|down|delete|reconfigure|-set\w+|--set",
        NETWORK_SETTINGS, HIGH)], asks="network"),
)
# fmt: on
