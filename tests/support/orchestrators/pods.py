#!/usr/bin/env python3
"""Checks Kubernetes manifests, and runs their pods as processes of this machine.

usage: pods.py check MANIFEST
       pods.py run MANIFEST FROM=TO … [-- OPTION …]

`run` starts each pod's command as the manifest has it, with the variables that the Job controller or Kubeflow's
operator sets. Each FROM=TO replaces a path or name of the cluster by one of this machine; options are put behind
`plait train CONFIG`. SIGTERM goes to the pods, each process once, as the kubelet does it. At the end a line tells
the exit codes in order of rank.
"""
import json
import os
import re
import signal
import subprocess
import sys

TO_JSON = "print JSON::PP->new->canonical->encode([CPAN::Meta::YAML::LoadFile($ARGV[0])])"


def load(path):
    """The documents of a manifest. Scalars are text, since the reader of Perl's core has no types."""
    return json.loads(subprocess.check_output(["perl", "-MCPAN::Meta::YAML", "-MJSON::PP", "-e", TO_JSON, path]))


def of_kind(documents, kind):
    return [one for one in documents if one["kind"] == kind]


def pods_of(documents):
    """(rank, pod template, variables that a controller sets) of each pod."""
    for job in of_kind(documents, "Job"):
        for rank in range(int(job["spec"]["completions"])):
            yield rank, job["spec"]["template"], {"JOB_COMPLETION_INDEX": str(rank)}
    for job in of_kind(documents, "PyTorchJob"):
        specs = job["spec"]["pytorchReplicaSpecs"]
        world = sum(int(spec["replicas"]) for spec in specs.values())
        rank = 0
        for role in ("Master", "Worker"):
            for _ in range(int(specs[role]["replicas"])):
                yield rank, specs[role]["template"], {
                    "RANK": str(rank), "WORLD_SIZE": str(world), "MASTER_PORT": "23456", "PYTHONUNBUFFERED": "0",
                    "MASTER_ADDR": f"{job['metadata']['name']}-master-0", "PET_NNODES": str(world)}
                rank += 1


def variables(container):
    found = {}
    for entry in container.get("env", []):
        source = entry.get("valueFrom", {})
        if "fieldRef" in source:
            assert source["fieldRef"]["fieldPath"] == "metadata.namespace", source
            found[entry["name"]] = "default"
        elif "secretKeyRef" in source:
            found[entry["name"]] = "a secret"
        else:
            found[entry["name"]] = entry["value"]
    return found


def check_pod(template, documents):
    spec = template["spec"]
    (container,) = spec["containers"]
    assert int(spec["terminationGracePeriodSeconds"]) >= 60, "a save needs time"
    assert container["command"][0].startswith("/usr/share/plait/orchestrators/"), container["command"]
    volumes = {one["name"]: one for one in spec["volumes"]}
    mounts = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
    assert volumes.keys() == mounts.keys(), (volumes, mounts)
    words = container["command"] + container["args"]
    for name in re.findall(r"\$\((\w+)\)", " ".join(words)):
        assert name in variables(container), f"$({name}) is not set"
    for path in (word for word in words if word.startswith("/") and "/share/plait/" not in word):
        assert any(path.startswith(mount + "/") for mount in mounts.values()), f"{path} is on no volume"
    for one in of_kind(documents, "ConfigMap"):
        json.loads(one["data"]["config.json"])
    return container


def check(documents):
    pods = list(pods_of(documents))
    assert len(pods) > 1
    containers = [check_pod(template, documents) for _, template, _ in pods]
    assert all(one["args"] == containers[0]["args"] for one in containers), "pods differ"
    args = containers[0]["args"]
    for job in of_kind(documents, "Job"):
        spec = job["spec"]
        assert spec["completionMode"] == "Indexed" and spec["parallelism"] == spec["completions"]
        assert args[args.index("--world") + 1] == spec["completions"], "--world is not completions"
        (service,) = of_kind(documents, "Service")
        assert service["spec"]["clusterIP"] == "None" and service["spec"]["selector"]["job-name"] == job["metadata"]["name"]
        assert service["metadata"]["name"] == spec["template"]["spec"]["subdomain"]
        host = f"{job['metadata']['name']}-0.{service['metadata']['name']}.$(NAMESPACE).svc.cluster.local:"
        assert args[args.index("--join") + 1].startswith(host), "--join is not pod 0"
        assert spec["template"]["spec"]["restartPolicy"] == "Never"  # what a podFailurePolicy asks for
        rules = [(rule["action"], sorted(map(int, rule["onExitCodes"]["values"])))
                 for rule in spec["podFailurePolicy"]["rules"] if "onExitCodes" in rule]
        assert rules == [("FailJob", [2, 5]), ("Ignore", [3])], rules
        for rule in spec["podFailurePolicy"]["rules"]:
            assert rule.get("onExitCodes", {}).get("containerName", containers[0]["name"]) == containers[0]["name"]
    for job in of_kind(documents, "PyTorchJob"):
        for spec in job["spec"]["pytorchReplicaSpecs"].values():
            assert spec["restartPolicy"] == "ExitCode"
            assert spec["template"]["spec"]["containers"][0]["name"] == "pytorch"  # where the operator sets variables


def run(documents, replacements, options):
    def local(text):
        for old, new in replacements:
            text = text.replace(old, new)
        return text

    children = []
    for _, template, controller in pods_of(documents):
        container = template["spec"]["containers"][0]
        own = variables(container)
        words = [local(re.sub(r"\$\((\w+)\)", lambda match: own[match.group(1)], word))
                 for word in container["command"] + container["args"]]
        config = words.index("train") + 1
        words[config + 1:config + 1] = options
        environment = {name: local(value) for name, value in {**controller, **own}.items()}
        children.append(subprocess.Popen(words, stdin=subprocess.DEVNULL,
                                         env={"PATH": os.environ["PATH"], **environment}))
    signal.signal(signal.SIGTERM, lambda number, frame: [child.terminate() for child in children])
    print("pods", *(child.pid for child in children), flush=True)
    print("codes", *(child.wait() % 256 if child.wait() >= 0 else 128 - child.wait() for child in children), flush=True)


def main():
    documents = load(sys.argv[2])
    if sys.argv[1] == "check":
        return check(documents)
    words = sys.argv[3:]
    cut = words.index("--") if "--" in words else len(words)
    run(documents, [tuple(word.split("=", 1)) for word in words[:cut]], words[cut + 1:])


if __name__ == "__main__":
    main()
