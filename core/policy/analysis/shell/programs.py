"""Two tables of the changes that programs make, by their names and arguments.

`_CHANGES`: programs, patterns that must all match an argument, the finding, its risk. Each pattern matches a
whole argument; ` & ` separates patterns; an empty text matches any arguments.
`_READ_ONLY`: programs, patterns that mark a call as read-only, and a pattern that no argument may match then.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from core.models.tools import Risk
from core.policy.analysis.shell.parser import Call, CommandFinding
from core.policy.analysis.shell.tables import (
    ACCOUNTS,
    CONTAINERS,
    DISKS,
    DOWNLOADS,
    FIREWALL,
    KILLS,
    LIBRARIES,
    OFF,
    PACKAGES,
)

LOW, MEDIUM, HIGH, CRITICAL = Risk.LOW, Risk.MEDIUM, Risk.HIGH, Risk.CRITICAL

_DISK = "Changes disks or file systems"
_CHECK = "Changes a file system where it lies"
_KERNEL = "Changes what the kernel does or whom it trusts"
_SETTINGS = "Changes settings of the system"
_NETWORK = "Changes the firewall or network settings"
_SERVICES = "Starts, stops or restarts services"
_OFF = "Shuts the machine down or restarts it"
_REMOVES = "Removes resources in a cloud or on a server"
_CLOUD = "Drives resources in a cloud"
_HISTORY = "Throws away files or history in a repository"
_PROGRAMS = "May install or remove programs"
_BUILDS = "Runs the commands of a build; they are not in the line"
_RIGHTS = "Changes who may reach files"
_ASKS_OTHERS = "Has other programs act"
_DATABASE = "Drops, deletes or empties parts of a database"
_ALL_HOSTS = "Starts commands on other computers; they are not in the line"

_CHANGES: tuple[tuple[str, str, str, Risk], ...] = (
    (" ".join(OFF), "", _OFF, CRITICAL),
    ("init telinit", "", "Changes the run level of the machine", CRITICAL),
    (" ".join(KILLS), "", "Ends running programs", HIGH),
    ("fuser", r"-\w*k\w*|--kill", "Ends running programs", HIGH),
    # Other programs do what these ask for, also as root.
    ("dbus-send qdbus", "", _ASKS_OTHERS, HIGH),
    ("gdbus", r"call|emit", _ASKS_OTHERS, HIGH),
    ("busctl", r"call|emit|set-property", _ASKS_OTHERS, HIGH),
    ("capsh", r"--", "Starts a shell with other rights", HIGH),
    ("ln", r"/(?:usr/)?(?:local/)?s?bin/[^/]+", "Gives a program another name", HIGH),
    ("cpio", r"-\w*[ip]\w*|--extract|--pass-through", "Unpacks files, over those that exist", HIGH),
    (" ".join(ACCOUNTS), "", "Changes users or passwords", HIGH),
    ("groupmod gpasswd chage vipw vigr newusers chfn chgpasswd pwconv pwunconv usermod pam-auth-update", "",
     "Changes users or passwords", HIGH),
    ("dscl dseditgroup sysadminctl net", r"-create|-delete|-append|-passwd|-addUser|-deleteUser|user"
     r"|localgroup|-o",
     "Changes users or passwords", HIGH),
    (" ".join(FIREWALL), "", _NETWORK, HIGH),
    ("iptables-restore ip6tables-restore ebtables arptables ipset nftables ifup ifdown dhclient wpa_cli", "",
     _NETWORK, HIGH),
    ("ip", r"set|add|del|delete|flush|change|replace|append|up|down|netns", _NETWORK, HIGH),
    ("ifconfig", r"up|down|add|del|inet|netmask|hw|mtu|\d+\.\d+\.\d+\.\d+\S*", _NETWORK, HIGH),
    ("route", r"add|del|delete|flush|change", _NETWORK, HIGH),
    ("tc", r"add|del|delete|change|replace|flush", _NETWORK, HIGH),
    ("nmcli", r"up|down|add|delete|del|modify|mod|off|on|disconnect|connect|edit|import|clone", _NETWORK,
     HIGH),
    ("iw iwconfig rfkill brctl bridge ethtool", r"set|add|del|block|unblock|power|essid|addbr|delbr|addif|-s"
     r"|-K|-C|-G",
     _NETWORK, HIGH),
    ("resolvectl networkctl networksetup scutil", r"dns|domain|revert|flush-caches|up|down|delete"
     r"|reconfigure|-set\w+|--set",
     _NETWORK, HIGH),
    # Disks and file systems.
    (" ".join(DISKS), "", _DISK, CRITICAL),
    ("mke2fs mkswap mkdosfs mkntfs newfs sg_format sg_sanitize flashcp ddrescue", "", _DISK, CRITICAL),
    ("vgremove pvremove lvreduce vgreduce pvmove lvconvert thin_restore", "", _DISK, CRITICAL),
    ("lvcreate lvextend lvresize lvrename lvchange vgcreate vgextend vgchange pvcreate pvresize", "", _DISK,
     HIGH),
    ("zfs", r"destroy|rollback|receive|recv|promote", "Destroys or rolls back volumes", CRITICAL),
    ("zpool", r"destroy|labelclear|create|add|remove|offline|detach|replace|split|export",
     "Changes a pool of disks", CRITICAL),
    ("nvme", r"format|sanitize|delete-ns|create-ns|write\S*|reset|subsystem-reset|fw-\w+|security-send|zns"
     r"|dsm", _DISK, CRITICAL),
    ("mdadm", r"--zero-superblock|--stop|-S|--fail|-f|--remove|-r|--create|-C|--grow|-G|--add|-a", _DISK,
     CRITICAL),
    ("hdparm", r"--security-\S+|--trim-\S+|--make-bad-\S+|--write-sector|--format-\S+|--dco-\S+|-N\S*"
     r"|--fwdownload\S*", _DISK, CRITICAL),
    ("hdparm", r"-[yYSBMWQAK]\S*|--yes-i-know\S*", "Changes how a disk works", HIGH),
    ("btrfs", r"delete|remove|rescue|resize|replace|repair|--repair|-d", "Changes volumes or file systems",
     CRITICAL),
    ("dmsetup", r"remove\S*|wipe_table|create|load|clear|rename|suspend", _DISK, CRITICAL),
    ("badblocks", r"-\w*w\w*", _DISK, CRITICAL),
    ("debugfs", r"-\w*w\w*", _DISK, CRITICAL),
    ("losetup", r"-d|-D|--detach\S*", "Takes a device away from its file", HIGH),
    ("tune2fs resize2fs e2fsck fsck xfs_growfs xfs_admin xfs_repair reiserfsck ntfsfix fatlabel e2label "
     "swaplabel", "", _CHECK, HIGH),
    ("fstrim", "", "Discards unused blocks of a disk", MEDIUM),
    ("smartctl", r"-[sStX]|--(?:smart|test|set|abort)\S*", "Changes how a disk works", HIGH),
    ("diskutil", r"erase\w*|partition\w*|zero\w*|random\w*|secureErase|apfs|unmount\w*|reformat", _DISK,
     CRITICAL),
    ("mount umount swapoff swapon", "", "Mounts or unmounts disks", HIGH),
    ("mount.cifs mount.nfs fusermount fusermount3 udisksctl pmount cryptmount sshfs", "",
     "Mounts or unmounts disks", HIGH),
    ("efibootmgr grub-install grub-mkconfig update-grub bootctl lilo kernelstub", "", _KERNEL, HIGH),
    ("flashrom fwupdmgr fwupdtool", "", _KERNEL, HIGH),
    ("ipmitool", r"power|reset|cycle|off|soft|raw|set|mc|user", _OFF, CRITICAL),
    # Services and sessions.
    ("service rc-service sv", r"start|stop|restart|reload|force-reload|force-stop|kill|try-restart|up|down",
     _SERVICES, HIGH),
    ("sc stop-service restart-service start-service", r"start|stop|delete|config|create|.*", _SERVICES, HIGH),
    ("net", r"stop|start", _SERVICES, HIGH),
    ("systemctl", "poweroff|reboot|halt|suspend|hibernate|hybrid-sleep|suspend-then-hibernate|soft-reboot"
     "|kexec|rescue"
     "|emergency|exit|switch-root|sleep", _OFF, CRITICAL),
    ("systemctl launchctl", "start|stop|restart|try-restart|reload|reload-or-restart|try-reload-or-restart"
     "|enable|disable|mask"
     "|unmask|reenable|preset\\S*|kill|clean|freeze|thaw|isolate|link|edit|revert|set-property|set-default"
     "|set-environment"
     "|unset-environment|import-environment|daemon-reload|daemon-reexec|add-wants|add-requires|reset-failed"
     "|bind|mount-image"
     "|log-level", _SERVICES, HIGH),
    ("rc-update chkconfig update-rc.d initctl invoke-rc.d", r"add|del|delete|on|off|enable|disable|defaults"
     r"|remove|start|stop"
     r"|restart|reload|-f", _SERVICES, HIGH),
    ("supervisorctl monit pm2 runsvdir svc", r"start|stop|restart|reload|shutdown|remove|delete|kill|update"
     r"|-d|-k", _SERVICES, HIGH),
    ("loginctl", r"terminate-\S+|kill-\S+|lock-\S+|poweroff|reboot", "Ends the session of a user, or the "
     "machine's", HIGH),
    ("dbus-send busctl gdbus qdbus qdbus6", r".*(?:login1|systemd1|ConsoleKit|SessionManager|UPower"
     r"|UDisks2).*"
     " & (?i:.*(?:poweroff|reboot|halt|suspend|hibernate|terminate|kill|logout|shutdown|stop|format|start"
     "|restart).*)",
     "Ends the session, shuts the machine down, or drives its services over the bus", HIGH),
    ("gnome-session-quit xfce4-session-logout", "", "Ends the session", HIGH),
    # Kernel, time, names, settings.
    ("setcap insmod modprobe rmmod kexec setenforce update-ca-certificates depmod trust", "", _KERNEL, HIGH),
    ("auditctl aa-teardown aa-disable aa-complain apparmor_parser semanage setsebool tcpkill devmem devmem2 "
     "wrmsr setpci",
     "", _KERNEL, HIGH),
    ("bpftool", r"load\S*|attach|detach|pin|update|delete|set", _KERNEL, HIGH),
    ("sysctl", r"-w|--write|-p\S*|--load\S*|--system|-f|[\w./-]+=.*", _SETTINGS, HIGH),
    ("hwclock", r"--(?:set|systohc|hctosys|adjust)\S*|-w|-s|-a", _SETTINGS, HIGH),
    ("date", r"-s\S*|--set\S*|\d{8}(?:\d\d){0,2}(?:\.\d\d)?", _SETTINGS, HIGH),
    ("timedatectl hostnamectl localectl", r"set-\S+|hostname", _SETTINGS, HIGH),
    ("hostname domainname", r"[A-Za-z0-9]\S*|-F|--file", _SETTINGS, HIGH),
    ("ntpdate chronyc", r"[A-Za-z]\S*\..*|makestep|settime|offline|online|-s", _SETTINGS, MEDIUM),
    ("dconf gsettings xfconf-query kwriteconfig5 kwriteconfig6", r"write|reset\S*|load|set|-s|-r|--key",
     "Changes settings of the desktop", MEDIUM),
    ("update-alternatives alternatives xdg-settings xdg-mime", r"--set|--install|--remove|set|default"
     r"|install",
     "Changes settings: which programs are used", MEDIUM),
    ("xrandr", r"--(?:off|output|mode|auto)", "Changes settings of the screen", MEDIUM),
    ("reg", r"(?i:delete|add|import|restore|load|unload)", _SETTINGS, HIGH),
    ("vssadmin", r"(?i:delete|resize)", _SETTINGS, HIGH),
    ("wbadmin", r"(?i:delete)", _SETTINGS, HIGH),
    ("bcdedit", r"/\w+", _SETTINGS, HIGH),
    ("cipher", r"(?i:/w\S*)", _SETTINGS, HIGH),
    ("wmic", r"(?i:delete|call|create)", _SETTINGS, HIGH),
    ("csrutil spctl", r".*disable.*", _SETTINGS, HIGH),
    ("defaults", r"write|delete", _SETTINGS, HIGH),
    ("launchctl", r"unload|load|bootout|bootstrap|remove|disable", _SETTINGS, HIGH),
    # What was done is no longer seen.
    ("journalctl", r"--vacuum-\S+|--rotate|--flush|--relinquish-var", "Hides what was done: takes entries "
     "out of the log", MEDIUM),
    ("dmesg", r"-\w*[cC]\w*|--clear|--read-clear", "Hides what was done: empties the kernel's log", MEDIUM),
    ("logrotate", r"-\w*f\w*|--force", "Hides what was done: turns the logs over", MEDIUM),
    # Files.
    ("gpg gpg2", r"--export-secret-\S+|--delete-\S+", "Takes out or deletes keys or passwords", HIGH),
    ("security secret-tool keyctl pass", r"find-\S+password|dump-keychain|export|lookup|clear|print|pipe"
     r"|show|rm|delete-\S+",
     "Names where keys or passwords are", HIGH),
    ("gdb lldb", r"-p\S*|--pid\S*|attach", "Takes hold of a running program", HIGH),
    ("truncate", "", "Cuts a file's content", MEDIUM),
    ("patch", "", "Changes files in place", MEDIUM),
    ("chown chgrp chattr setfattr", "", "Changes owner or permissions", MEDIUM),
    ("setfacl", r"-\w*[mxbkM]\w*|--(?:modify|remove|set|restore)\S*", _RIGHTS, MEDIUM),
    ("icacls cacls takeown", "", _RIGHTS, MEDIUM),
    ("gio kioclient kioclient5", r"trash|remove", "Deletes files", MEDIUM),
    ("gvfs-trash trash-put trash-empty gvfs-rm", "", "Deletes files", MEDIUM),
    ("rclone", r"sync|delete|deletefile|purge|move|moveto|rmdir|rmdirs|cleanup|bisync",
     "Deletes files, here or elsewhere", HIGH),
    ("rclone", "", "Talks to the network", MEDIUM),
    ("git", r"clean & -\w*f\w*|--force", _HISTORY, HIGH),
    ("git", r"reset & --hard|--merge|--keep", _HISTORY, HIGH),
    ("git", r"push & --force|--force-with-lease\S*|--force-if-includes|-\w*f\w*|--delete|-d|--mirror|--prune"
     r"|:\S+|\+\S+", _HISTORY, HIGH),
    ("git", r"branch & -D|-f|--force|-M|-C", _HISTORY, HIGH),
    ("git", r"tag & -d|--delete|-f|--force", _HISTORY, HIGH),
    ("git", r"checkout|switch & --|-f|--force|--discard-changes|-B|\.", _HISTORY, HIGH),
    ("git", r"restore & \.|--source\S*|--worktree|-W|-s|[^-].*", _HISTORY, HIGH),
    ("git", r"stash & drop|clear", _HISTORY, HIGH),
    ("git", r"reflog & expire|delete", _HISTORY, HIGH),
    ("git", r"gc & --prune\S*", _HISTORY, HIGH),
    ("git", r"update-ref|filter-branch|filter-repo", _HISTORY, HIGH),
    ("git", r"remote & rm|remove|set-url|rename", "Changes where a repository's history goes", MEDIUM),
    ("git", r"rm|worktree & -\w*[rf]\w*|--force|remove", _HISTORY, HIGH),
    # Programs of others, and builds.
    (" ".join(PACKAGES), "", _PROGRAMS, MEDIUM),
    (" ".join(LIBRARIES), "install|uninstall|add|remove|i|ci|update|upgrade|publish|exec|tool|run|dlx"
     "|rebuild|link|create|init|test|start"
     "|sync|require|un|rm|download|wheel|audit", _PROGRAMS, MEDIUM),
    ("npx uvx bunx pnpx", "", "Fetches a program and runs it", MEDIUM),
    ("make ninja rake just task ant gradle gradlew mvn mvnw bazel scons waf nmake msbuild xcodebuild invoke "
     "nox tox sbt lein", "",
     _BUILDS, MEDIUM),
    ("cmake meson", r"--build|--install|-P|compile|install|-E", _BUILDS, MEDIUM),
    ("go", r"run|generate|test|install|get|tool", _BUILDS, MEDIUM),
    ("cargo", r"run|test|bench|build|check|clippy|doc|fix|b|t|r", _BUILDS, MEDIUM),
    ("dotnet mix stack cabal swift zig dune", r"run|test|build|publish|watch|exec|compile", _BUILDS, MEDIUM),
    ("java javaw", r"-jar|-cp|-classpath|--module|-m|[A-Za-z_][\w.]*", "Runs a program in a file; what it "
     "does is not in the line", MEDIUM),
    ("ansible-playbook ansible-pull puppet chef-client chef-solo cfengine salt-call salt-ssh fab cap", "",
     _ALL_HOSTS, HIGH),
    ("crontab at batch schtasks atrm", "", "Changes what runs by itself", HIGH),
    # Containers, clusters, clouds.
    (" ".join(CONTAINERS), "delete|destroy|rm|rmi|prune|down|uninstall|drain|undefine|--privileged|purge",
     "Removes containers or resources, or gives them all rights", HIGH),
    (" ".join(CONTAINERS), "kill|stop|restart|pause|taint|cordon|scale|rollback|evict|apply|replace|patch"
     "|edit|upgrade",
     "Stops or changes containers or resources that are in use", HIGH),
    (" ".join(CONTAINERS), "", "Drives containers, virtual machines or clusters", MEDIUM),
    ("aws", r"rm|rb|delete\S*|terminate-\S+|stop-\S+|destroy\S*|purge\S*|revoke\S*|detach\S*|deregister\S*"
     r"|disable\S*|remove\S*"
     r"|reboot-\S+|put-\S+policy\S*|schedule-key-deletion", _REMOVES, HIGH),
    ("gcloud gsutil az doctl hcloud oci linode-cli ibmcloud heroku flyctl fly vercel netlify wrangler "
     "eksctl pulumi cdk serverless"
     " sls firebase supabase railway", r"delete\S*|rm|rb|remove\S*|destroy\S*|purge|stop|reset|down|undeploy"
     r"|revoke", _REMOVES, HIGH),
    ("gh glab hub", r"delete|archive|transfer|remove|close", _REMOVES, HIGH),
    ("vault consul etcdctl nomad", r"delete|del|destroy|purge|stop|kill|seal|revoke|disable|leave|compact",
     _REMOVES, HIGH),
    ("rabbitmqctl kafka-topics rabbitmqadmin", r"reset|stop\S*|delete\S*|purge\S*|--delete|force_reset"
     r"|forget\S*", _REMOVES, HIGH),
    ("vagrant multipass vboxmanage virsh qm pct lxc incus", r"destroy|delete|halt|purge|unregistervm|stop"
     r"|poweroff|controlvm", _REMOVES, HIGH),
    ("aws", r"cp|mv|sync|put-\S+|create-\S+|run-instances|modify-\S+|update-\S+|start-\S+|invoke|attach-\S+",
     _CLOUD, MEDIUM),
    ("gcloud gsutil az doctl", r"create|update|cp|mv|rsync|deploy|ssh|set|start|add-\S+", _CLOUD, MEDIUM),
    # Databases, by their own programs.
    ("dropdb dropuser pg_resetwal pg_dropcluster mysql_secure_installation", "", _DATABASE, CRITICAL),
    ("mysqladmin", r"drop|shutdown|flush-\S+|kill|password", _DATABASE, CRITICAL),
    ("pg_ctl pg_ctlcluster", r"stop|restart|promote|kill|immediate", _DATABASE, HIGH),
    ("pg_restore mysqlimport mongorestore", "", "Writes into a database what is not in the line", HIGH),
    ("createuser createdb mongoimport", "", "Writes into a database", MEDIUM),
    # Other computers.
    (" ".join(DOWNLOADS), "", "Talks to the network", MEDIUM),
    ("ssh scp sftp telnet mosh autossh lftp rsh rlogin ftp tftp smbclient rpcclient", "",
     "Connects to another computer", MEDIUM),
    ("rsync", r"[^/\s]+:.*|rsync://.*", "Connects to another computer", MEDIUM),
    ("mail mailx sendmail mutt swaks msmtp s-nail", "", "Sends mail over the network", MEDIUM),
    ("openssl", "s_client", "Talks to the network", MEDIUM),
    ("openssl", "s_server", "Waits for connections from others", HIGH),
    ("php", r"-S\S*", "Serves files to the network", HIGH),
    ("ngrok cloudflared localtunnel lt bore chisel frpc", "", "Opens a way into or out of the network", HIGH),
    ("tcpdump tshark dumpcap", "", "Listens in on the network", MEDIUM),
    ("nmap masscan hping3 nikto", "", "Probes other computers over the network", MEDIUM),
    ("alias", r".+=.*", "Gives a command another meaning", MEDIUM),
    ("eval iex invoke-expression trap", "", "Runs text as a shell line", HIGH),
    ("bind", r"-x|.*-x.*", "Gives a key a command", HIGH),
    ("enable", r"-f\S*", "Loads a command of the shell from a file that is not in the line", HIGH),
    ("hash", r"-p\S*", "Gives a command another program from a file that is not in the line", HIGH),
)  # fmt: skip

_READ_ONLY: tuple[tuple[str, str, str], ...] = (
    ("fdisk sfdisk", r"-l|--list|-s|-d|--dump|-V|--version|--show-\S+", ""),
    ("sgdisk gdisk", r"-\w*p|--print|-l\S*|-i\S*|--info\S*", r"-[ZzodnGt]\S*|--(?:zap|clear|delete|new)\S*"),
    ("parted", r"-l|--list|print|-m", r"mk\w+|rm|resizepart|rescue|set|name|toggle|disk_set|disk_toggle"
     r"|align-check"),
    ("wipefs", r"-n|--no-act|--json|-J|/dev/\S+", r"-\w*[aotf]\w*|--(?:all|offset|types|force)\S*"),
    ("cryptsetup", r"status|luksDump|isLuks|benchmark|luksUUID", ""),
    ("fsck e2fsck xfs_repair", r"-n|-N", r"-y|-p|-a"),
    ("tune2fs", r"-l", r"-[^l]\S*"),
    ("mount", r"", r".+"),
    ("mount", r"-l|--show-labels", r"[^-].*"),
    ("swapon", r"--show\S*|-s|--summary", ""),
    ("udisksctl", r"status|info|dump|monitor", ""),
    ("efibootmgr bootctl", r"-v|--verbose|status|list", r"-[bBocnNtTD]\S*|--(?:delete|create|boot)\S*"),
    ("efibootmgr", "", r".+"),
    ("fwupdmgr", r"get-\S+|security", ""),
    ("iptables ip6tables", r"-\w*[LS]\w*|--list\S*|-V", r"-[FXPADIRNZE]|--(?:flush|policy|append|delete"
     r"|insert)"),
    ("nft", r"list|-v|monitor|describe", ""),
    ("ufw", r"status|show|version", ""),
    ("firewall-cmd", r"--(?:list|get|query|state|info)\S*", r"--(?:add|remove|set|reload|panic|complete|new"
     r"|delete)\S*"),
    ("ipset", r"list|-L|test", ""),
    ("netsh", r"show|dump", r"set|add|delete|reset"),
    ("pfctl", r"-s\S*|-v\S*", r"-[FdefN]\S*"),
    ("ip", r"show|list|ls|lst|get|monitor|help|identify|pids", r"set|add|del|delete|flush|change|replace"
     r"|append|exec"),
    ("passwd chage", r"-S|--status|-l", r"-[du]\S*|--delete|--unlock"),
    ("gpasswd chsh", r"--help|-l", ""),
    ("kill pkill killall", r"-l|-L|-0|--list|--table|--version|-V", r"-(?:KILL|TERM|HUP|INT|STOP|s"
     r"|[1-9]\d?)"),
    ("crontab at", r"-l|-c", r"-[reid]"),
    ("schtasks", r"(?i:/query)", r"(?i:/(?:create|delete|change|run|end))"),
    ("apt apt-get aptitude", r"list|show|search|policy|depends|rdepends|changelog|check|moo|download|-v"
     r"|--version|-s|--simulate", ""),
    ("dpkg", r"-[lLsSpC]\S*|--(?:list|listfiles|status|search|print\S*|get-selections|audit|version"
     r"|compare-versions)\S*", ""),
    ("rpm", r"-q\S*|--query\S*|-V\S*|--verify|--version", ""),
    ("dnf yum", r"list|info|search|repolist|provides|history|check-update|--version|repoquery",
     r"undo|redo|rollback"),
    ("zypper", r"search|se|info|if|list-updates|lu|repos|lr|--version", ""),
    ("pacman", r"-Q\S*|-Ss\S*|-Si\S*|-F\S*|-V", ""),
    ("apk", r"info|search|list|policy|version|audit", ""),
    ("brew", r"list|ls|info|search|outdated|deps|doctor|config|leaves|--version|--prefix|uses|desc", ""),
    ("snap", r"list|info|find|services|version|connections|changes|interfaces", ""),
    ("flatpak", r"list|info|search|remotes|ps|history|--version", ""),
    ("winget choco", r"list|search|show|info|outdated|--version", ""),
    ("npm pnpm yarn pip uv cargo gem conda composer", r"audit", r"fix|--fix"),
    ("docker podman nerdctl", "ps|images|logs|inspect|version|info|stats|top|port|history|diff|events|ls"
     "|search|config|--version|-v"
     "|context", "rm|rmi|prune|run|exec|create|start|stop|kill|restart|up|down|build|push|pull|cp|commit"
     "|load|import|save|export|tag|update"
     "|rename|pause|unpause|attach|login|use|remove|set|apply|mount|unmount|wait"),
    ("kubectl", "get|describe|logs|explain|version|api-resources|api-versions|top|cluster-info|diff|auth"
     "|view|current-context|events",
     "apply|delete|create|edit|patch|replace|scale|exec|run|cp|drain|cordon|uncordon|taint|label|annotate"
     "|rollout|expose|attach"
     "|port-forward|proxy|debug|set|set-context|use-context|autoscale|certificate"),
    ("helm", r"list|ls|status|get|history|show|search|template|version|lint|env",
     r"install|upgrade|rollback|uninstall|delete|push|pull|repo|plugin"),
    ("terraform tofu", r"plan|show|validate|version|output|providers|graph|fmt|-version",
     r"apply|destroy|import|taint|untaint"
     "|push|rm|mv|init|-destroy|replace-provider|force-unlock|console"),
    ("lxc virsh", r"list|ls|info|dominfo|domstate|version|show|net-list|pool-list|dumpxml", ""),
    ("make gmake", r"-\w*n\w*|--dry-run|--just-print|--version|-v|--help|-h|-p|-q", ""),
    ("mvn gradle ant", r"--version|-v|--help|-version|-h", ""),
    ("go", r"version|env|doc|list|vet|fmt|help", r"-w|-u"),
    ("just rake task invoke", r"-l|--list|-T|--tasks|--version|--summary|--help", ""),
    ("java", r"-version|--version|-help|--help", r"-jar|-cp|-classpath"),
    ("patch", r"--dry-run|--check|-C", ""),
    ("hwclock", r"-r|--show|--get|--verbose", r"--(?:set|systohc|hctosys|adjust)\S*|-w|-s"),
    ("hostname domainname", r"-[fisdAIy]|--(?:fqdn|ip-address|short|all\S*|long|domain)", r"-F|--file"),
    ("sysctl", r"-a|-A|-n|--all|--values", r"-w|--write|-p\S*|--load\S*|--system|.*=.*"),
    ("vagrant multipass vboxmanage", r"status|list|info|global-status", ""),
    ("aws", r"ls|describe-\S+|list-\S+|get-\S+|help|--version|lookup-\S+|batch-get-\S+|head-\S+",
     r"rm|rb|delete\S*|terminate-\S+|put-\S+"),
    ("auditctl", r"-[ls]", r"-[DdaAweR]"),
    ("semanage", r"list|-l", r"-[adDm]"),
    ("trust", r"list|dump", ""),
    ("setfacl", r"--test|--version", ""),
    ("loginctl", r"list-\S+|show-\S+|\S*-status", r"terminate-\S+|kill-\S+"),
    ("ssh", r"-V|-Q|-G", r"[^-].*"),
    ("fuser", r"-v", r"-\w*k\w*|--kill"),
    ("chronyc", r"tracking|sources\w*|activity", ""),
)  # fmt: skip

_HELP = re.compile(r"--help|--version")


class _Change(NamedTuple):
    words: tuple[re.Pattern[str], ...]
    text: str
    risk: Risk


def _patterns(words: str) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(rf"(?:{word})") for word in words.split(" & ")) if words else ()


def _tables() -> tuple[
    dict[str, list[_Change]], dict[str, list[tuple[tuple[re.Pattern[str], ...], re.Pattern[str] | None]]]
]:
    changes_of: dict[str, list[_Change]] = defaultdict(list)
    read_only_of: dict[str, list[tuple[tuple[re.Pattern[str], ...], re.Pattern[str] | None]]] = defaultdict(
        list
    )
    for programs, words, text, risk in _CHANGES:
        for name in programs.split():
            changes_of[name].append(_Change(_patterns(words), text, risk))
    for programs, words, unless in _READ_ONLY:
        for name in programs.split():
            read_only_of[name].append((_patterns(words), re.compile(rf"(?:{unless})") if unless else None))
    return dict(changes_of), dict(read_only_of)


_CHANGES_OF, _READ_ONLY_OF = _tables()
NAMES = frozenset(_CHANGES_OF)
"""The programs in the table."""


def change_findings(call: Call) -> Iterator[CommandFinding]:
    """The findings of the table about a call."""
    name, arguments = call.name, [word.text for word in call.args]
    if name in NAMES and is_read_only(call):
        return
    reported: set[str] = set()
    for change in _CHANGES_OF.get(name, ()):
        if change.text in reported or not all(
            any(map(pattern.fullmatch, arguments)) for pattern in change.words
        ):
            continue
        if change.text in _GENERAL_EFFECTS and reported:
            # A general finding adds nothing to a specific one.
            continue
        reported.add(change.text)
        yield CommandFinding(change.text, change.risk, call.words[0])
    if name.startswith("mkfs"):
        yield CommandFinding(_DISK, Risk.CRITICAL, call.words[0])


_GENERAL_EFFECTS = frozenset({"Drives containers, virtual machines or clusters", _CLOUD})


def is_read_only(call: Call) -> bool:
    """Whether a call only reads, although its program can change something."""
    texts = [pattern.text for pattern in call.args]
    if any(not pattern.known and not pattern.text and pattern.source[:1] != '"' for pattern in call.args):
        # Without quotes, an unknown word can expand to any number of options and verbs.
        return False
    for patterns, unless in _READ_ONLY_OF.get(call.name, ()):
        if all(any(map(pattern.fullmatch, texts)) for pattern in patterns) and not (
            unless is not None and any(map(unless.fullmatch, texts))
        ):
            return True
    return call.name in _CHANGES_OF and len(texts) == 1 and _HELP.fullmatch(texts[0]) is not None
