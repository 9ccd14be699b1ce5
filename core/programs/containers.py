"""Programs for containers, clusters, virtual machines and clouds."""

from __future__ import annotations

from core.programs.record import HIGH, MEDIUM, NEVER, Program, program, wraps
from core.programs.sentences import (
    ALL_HOSTS,
    DRIVES_CLOUD,
    DRIVES_CONTAINERS,
    REMOVES,
    REMOVES_CONTAINERS,
    STOPS_CONTAINERS,
)

# fmt: off
REMOVES_FROM_CLOUD = (
    r"delete\S*|rm|rb|remove\S*|destroy\S*|purge|stop|reset|down|undeploy|revoke", REMOVES, HIGH)
STOPS_MACHINES = ("destroy|delete|halt|purge|unregistervm|stop|poweroff|controlvm", REMOVES, HIGH)
CONTAINERS = (
    ("delete|destroy|rm|rmi|prune|down|uninstall|drain|undefine|--privileged|purge",
    REMOVES_CONTAINERS, HIGH),
    ("kill|stop|restart|pause|taint|cordon|scale|rollback|evict|apply|replace|patch|edit|upgrade",
    STOPS_CONTAINERS, HIGH),
    ("", DRIVES_CONTAINERS, MEDIUM),
)

CONTAINER_TOOLS: tuple[Program, ...] = (
    # Containers and clusters.
    program("crictl docker nerdctl podman", aliases="docker-compose=docker podman-compose=podman",
        kinds="mounts", changes=CONTAINERS,
        reads=[("ps|images|logs|inspect|version|info|stats|top|port|history|diff|events|ls|search|config|"
        "--version|-v|context",
        "rm|rmi|prune|run|exec|create|start|stop|kill|restart|up|down|build|push|pull|cp|commit|load|import|"
        "save|export|tag|update|rename|pause|unpause|attach|login|use|remove|set|apply|mount|unmount|wait")],
        asks="services",
        subcommands=[
            program("run create",
                options="-a -c -e -h -l -m -p -u -v -w --add-host --annotation --attach --blkio-weight "
                "--cap-add --cap-drop --cgroup-parent --cgroupns --cidfile --cpu-shares --cpus "
                "--cpuset-cpus --device --dns --entrypoint --env --env-file --expose --gpus --group-add "
                "--hostname --ip --ipc --label --link --log-driver --log-opt --memory --mount --name --net "
                "--network --pid --platform --publish --pull --restart --runtime --security-opt --shm-size "
                "--stop-signal --sysctl --tmpfs --ulimit --user --userns --uts --volume --volumes-from "
                "--workdir", wraps=wraps(1, open=True)),
            program("exec", options="-e -u -w --detach-keys --env --env-file --index --user --workdir",
                wraps=wraps(1, open=True))
        ]),
    program("k3s kubectl oc", changes=CONTAINERS,
        reads=[("get|describe|logs|explain|version|api-resources|api-versions|top|cluster-info|diff|auth|"
        "view|current-context|events",
        "apply|delete|create|edit|patch|replace|scale|exec|run|cp|drain|cordon|uncordon|taint|label|"
        "annotate|rollout|expose|attach|port-forward|proxy|debug|set|set-context|use-context|autoscale|"
        "certificate")], asks="services",
        subcommands=[
            program("exec rsh", options="-c -f -n --container --context --filename --namespace",
                wraps=wraps(1, after="--", open=True)),
            program("run", options="-n --env --image --namespace --restart",
                wraps=wraps(after="--", only=True)),
            program("debug", options="-n --image --namespace", wraps=wraps(after="--", only=True))
        ]),
    program("helm", changes=CONTAINERS,
        reads=[("list|ls|status|get|history|show|search|template|version|lint|env",
        "install|upgrade|rollback|uninstall|delete|push|pull|repo|plugin")]),
    program("terraform tofu", changes=CONTAINERS,
        reads=[("plan|show|validate|version|output|providers|graph|fmt|-version",
        "apply|destroy|import|taint|untaint|push|rm|mv|init|-destroy|replace-provider|force-unlock|"
        "console")]),
    program("incus lxc", changes=[*CONTAINERS, STOPS_MACHINES],
        reads=[("list|ls|info|dominfo|domstate|version|show|net-list|pool-list|dumpxml", "")],
        subcommands=[
            program("exec shell", options="--cwd --env --group --mode --user",
                wraps=wraps(1, after="--", open=True))
        ]),
    program("virsh", changes=[*CONTAINERS, STOPS_MACHINES],
        reads=[("list|ls|info|dominfo|domstate|version|show|net-list|pool-list|dumpxml", "")],
        asks="services"),
    # Virtual machines.
    program("vagrant", changes=[STOPS_MACHINES], reads=[("status|list|info|global-status", "")],
        subcommands=[program("ssh", wraps=wraps(NEVER, lines="-c --command", anywhere=True))]),
    program("multipass", changes=[STOPS_MACHINES], reads=[("status|list|info|global-status", "")],
        subcommands=[program("exec", options="-d --working-directory", wraps=wraps(1, after="--"))]),
    program("vboxmanage", changes=[STOPS_MACHINES], reads=[("status|list|info|global-status", "")]),
    program("pct qm", changes=[STOPS_MACHINES]),
    # Clouds and servers.
    program("aws",
        changes=[(r"rm|rb|delete\S*|terminate-\S+|stop-\S+|destroy\S*|purge\S*|revoke\S*|detach\S*|"
        r"deregister\S*|disable\S*|remove\S*|reboot-\S+|put-\S+policy\S*|schedule-key-deletion", REMOVES,
        HIGH),
        (r"cp|mv|sync|put-\S+|create-\S+|run-instances|modify-\S+|update-\S+|start-\S+|invoke|attach-\S+",
        DRIVES_CLOUD, MEDIUM)],
        reads=[(r"ls|describe-\S+|list-\S+|get-\S+|help|--version|lookup-\S+|batch-get-\S+|head-\S+",
        r"rm|rb|delete\S*|terminate-\S+|put-\S+")]),
    program("gcloud", changes=[REMOVES_FROM_CLOUD,
        (r"create|update|cp|mv|rsync|deploy|ssh|set|start|add-\S+", DRIVES_CLOUD, MEDIUM)],
        subcommands=[program("ssh", wraps=wraps(NEVER, lines="--command", anywhere=True))]),
    program("az doctl gsutil", changes=[REMOVES_FROM_CLOUD,
        (r"create|update|cp|mv|rsync|deploy|ssh|set|start|add-\S+", DRIVES_CLOUD, MEDIUM)]),
    program("cdk eksctl firebase fly flyctl hcloud ibmcloud linode-cli netlify oci pulumi railway serverless "
        "sls supabase vercel wrangler", changes=[REMOVES_FROM_CLOUD]),
    program("heroku", changes=[REMOVES_FROM_CLOUD],
        subcommands=[program("run", options="-a -e -s --app --env --size", wraps=wraps(shell=True))]),
    program("gh glab hub", changes=[("delete|archive|transfer|remove|close", REMOVES, HIGH)]),
    program("consul etcdctl nomad vault",
        changes=[("delete|del|destroy|purge|stop|kill|seal|revoke|disable|leave|compact", REMOVES, HIGH)]),
    program("kafka-topics rabbitmqadmin rabbitmqctl",
        changes=[(r"reset|stop\S*|delete\S*|purge\S*|--delete|force_reset|forget\S*", REMOVES, HIGH)]),
    # Many computers at once.
    program("ansible-playbook ansible-pull cap cfengine chef-client chef-solo fab puppet salt-call salt-ssh",
        changes=[("", ALL_HOSTS, HIGH)]),
)
# fmt: on
