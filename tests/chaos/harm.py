"""What mysql.py and etcd.py share: kubectl, processes of pods, volumes of their own, clients that write unique keys, and harms that are
done at random, one after the other and in pairs."""
import argparse
import json
import os
import random
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ON_NODE = os.path.join(HERE, "..", "cluster", "node-in.sh")
# The class of volumes that are made here.
CLASS = "chaos"
# How long clients may be without a write after a harm, and how long a cluster may take until it is whole again, in seconds.
WRITES_WITHIN, WHOLE_WITHIN = 180, 300


def arguments(description, namespace, operator):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--namespace", default=namespace)
    parser.add_argument("--operator-namespace", default=operator)
    parser.add_argument("--seconds", type=int, default=300, help="no harm begins later than this")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--members", type=int, default=3)
    parser.add_argument("--harms", default="", help="only these, separated by commas")
    return parser.parse_args()


def kubectl(*words, text=None, seconds=60):
    """Runs kubectl; its exit code, output and errors."""
    done = subprocess.run(("kubectl",) + words, input=text, capture_output=True, text=True, timeout=seconds)
    return done.returncode, done.stdout.strip(), done.stderr.strip()


def get(*words):
    """An object or a list; {} if there is none."""
    code, out, _ = kubectl("get", "-o", "json", *words)
    return json.loads(out) if code == 0 else {}


def on_node(script):
    """Runs a script of the shell in the namespaces of the node; whether it succeeded."""
    return subprocess.run([ON_NODE, "/bin/sh", "-c", script], capture_output=True).returncode == 0


def processes(uids, names):
    """The processes of these names in the pods of these uids, as this machine numbers them, with their states."""
    found = []
    for number in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{number}/stat") as file:
                name, rest = file.read().split("(", 1)[1].rsplit(") ", 1)
            if name not in names:
                continue
            with open(f"/proc/{number}/cgroup") as file:
                groups = file.read()
            with open(f"/proc/{number}/mountinfo") as file:
                groups += file.read()
        except OSError:
            continue
        if any(uid in groups or uid.replace("-", "_") in groups for uid in uids):
            found.append((int(number), rest[0]))
    return found


class Volumes(threading.Thread):
    """A file system of its own for each claim of the class, which can be filled and stopped, and goes with its claim."""

    def __init__(self, namespace, mebibytes):
        super().__init__(daemon=True)
        self.namespace, self.mebibytes = namespace, mebibytes
        kubectl("apply", "-f", "-", text=json.dumps({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": CLASS}, "provisioner": "test.tillerman.dev/chaos"}))
        self.start()

    def run(self):
        while True:
            try:
                self.look()
            except Exception as error:  # Objects change meanwhile.
                print("volumes:", error, flush=True)
            time.sleep(0.3)

    def look(self):
        for volume in get("pv").get("items", []):
            claim = volume["spec"].get("claimRef", {})
            if claim.get("namespace") == self.namespace and volume["status"].get("phase") == "Released":
                kubectl("delete", "pv", volume["metadata"]["name"])
                folder = self.folder(claim["uid"])
                on_node(f"umount --lazy {folder}; rm -f {folder}.img")
        for claim in get("pvc", "-n", self.namespace).get("items", []):
            about, spec = claim["metadata"], claim["spec"]
            waits = claim["status"].get("phase") == "Pending" and not spec.get("volumeName") and "deletionTimestamp" not in about
            if spec.get("storageClassName") != CLASS or not waits:
                continue
            uid, folder = about["uid"], self.folder(about["uid"])
            if kubectl("get", "pv", f"chaos-{uid}")[0] == 0:
                continue
            made = on_node(
                f"mkdir -p {folder} && truncate -s {self.mebibytes}M {folder}.img && mkfs.ext4 -q -m 0 {folder}.img"
                f" && mount -o loop {folder}.img {folder} && rmdir {folder}/lost+found && chmod 777 {folder}")
            if not made:
                raise RuntimeError(f"no file system for {about['name']}: does this machine have loop devices?")
            kubectl("create", "-f", "-", text=json.dumps({
                "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": f"chaos-{uid}"},
                "spec": {
                    "storageClassName": CLASS, "capacity": {"storage": f"{self.mebibytes}Mi"}, "accessModes": ["ReadWriteOnce"],
                    "persistentVolumeReclaimPolicy": "Retain", "hostPath": {"path": folder},
                    "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": self.namespace, "name": about["name"], "uid": uid}}}))

    @staticmethod
    def folder(uid):
        return f"/run/chaos/{uid}"

    def of(self, claim):
        """The folder of a claim on the node."""
        return self.folder(get("-n", self.namespace, "pvc", claim)["metadata"]["uid"])

    def fill(self, claim, seconds):
        """Leaves a volume no room for so long."""
        folder = self.of(claim)
        on_node(f"dd if=/dev/zero of={folder}/filler bs=64k 2>/dev/null; dd if=/dev/zero of={folder}/filler bs=1k oflag=append conv=notrunc 2>/dev/null")
        time.sleep(seconds)
        on_node(f"rm -f {folder}/filler")

    def stop(self, claim, seconds):
        """Lets nothing be written to a volume for so long: who writes waits."""
        folder = self.of(claim)
        on_node(f"fsfreeze -f {folder}")
        time.sleep(seconds)
        on_node(f"fsfreeze -u {folder}")


class Client(threading.Thread):
    """Writes one key after the other, and remembers those that were acknowledged."""

    def __init__(self, number, writes):
        super().__init__(daemon=True)
        self.number, self.writes = number, writes
        self.acknowledged, self.gaps, self.refused, self.last, self.over = [], [], 0, time.time(), False

    def run(self):
        number = 0
        while not self.over:
            number += 1
            try:
                key = self.writes(self.number, number)
            except Exception:
                self.refused += 1
                time.sleep(0.05)
                continue
            now = time.time()
            self.acknowledged.append(key)
            self.gaps.append((now - self.last, now))
            self.last = now


class Chaos:
    """A cluster to which harm is done. What differs between databases is in mysql.py and etcd.py."""

    clients = 4
    # The processes that harms stop.
    programs = ()

    def __init__(self, options):
        self.options, self.namespace, self.random = options, options.namespace, random.Random(options.seed)
        self.failures = 0

    def k(self, *words, **more):
        return kubectl("-n", self.namespace, *words, **more)

    def get(self, *words):
        return get("-n", self.namespace, *words)

    def pods(self):
        return {pod["metadata"]["name"]: pod for pod in self.get("pods", "-l", self.selector).get("items", [])}

    def kill_pod(self, pod):
        self.k("delete", "pod", pod, "--grace-period=0", "--force")

    def kill_operator(self):
        kubectl("-n", self.options.operator_namespace, "delete", "pod", "--all", "--grace-period=0", "--force")

    def signal(self, pod, name, programs=None):
        """Sends a signal to the processes of a pod."""
        uid = self.pods().get(pod, {}).get("metadata", {}).get("uid")
        found = processes([uid], programs or self.programs) if uid else []
        for number, _ in found:
            subprocess.run(["kill", f"-{name}", str(number)], stderr=subprocess.DEVNULL)
        if not found:
            print(f"    {pod} has no process of {programs or self.programs}", flush=True)

    def lose_volume(self, pod):
        self.k("delete", "pvc", f"data-{pod}", "--wait=false")
        self.kill_pod(pod)

    def is_whole(self):
        """Whether it is ready, and no process is stopped any more: a pod is ready until its next probe."""
        uids = [pod["metadata"]["uid"] for pod in self.pods().values()]
        stopped = any(state in "Tt" for _, state in processes(uids, self.programs + ("tillerman-agent",)))
        return not stopped and self.is_ready()

    def until_whole(self, seconds):
        """Waits until the cluster is whole; whether it is."""
        end = time.time() + seconds
        while time.time() < end:
            if self.is_whole():
                return True
            time.sleep(1)
        return False

    def fail(self, what):
        self.failures += 1
        print(f"    {what}: {json.dumps(self.status())[:3000]}", flush=True)

    def harms(self):
        """All harms, and those of `alone` by themselves: the second of a pair is one of `seconds`."""
        only = [name for name in self.options.harms.split(",") if name]
        return only or list(self.kinds)

    def one(self, kind):
        """Does a harm, and often another one right behind it; waits until all is well again."""
        began = time.time()
        self.kinds[kind]()
        time.sleep(self.random.choice([0, 0.5, 2]))
        name = kind
        # Something that hangs is harmed together with something else more often than not.
        if self.random.random() < (0.7 if kind.startswith("hang") else 0.3):
            second = self.random.choice(self.seconds)
            self.kinds[second]()
            name += " then " + second
        harmed = time.time()
        while min(client.last for client in self.writers) < harmed + 1 and time.time() < harmed + WRITES_WITHIN:
            time.sleep(0.1)
        if time.time() >= harmed + WRITES_WITHIN:
            self.fail(f"no client writes after {name}")
        whole = self.until_whole(WHOLE_WITHIN)
        gap = max((gap for client in self.writers for gap, at in client.gaps if at > began), default=0)
        print(f"{name:44} whole again after {time.time() - began:5.1f} s, longest gap of a client {gap:5.2f} s", flush=True)
        if not whole:
            self.fail(f"not whole after {name}")
        return whole

    def run(self):
        kubectl("create", "namespace", self.namespace)
        self.volumes = Volumes(self.namespace, self.mebibytes)
        began = time.time()
        self.create()
        if not self.until_whole(WHOLE_WITHIN):
            self.fail("it does not become ready")
            return 1
        print(f"ready after {time.time() - began:.1f} s", flush=True)
        self.prepare()
        self.writers = [Client(number, self.write) for number in range(self.clients)]
        for client in self.writers:
            client.start()
        end, bag, count = time.time() + self.options.seconds, [], 0
        while time.time() < end:
            if not bag:
                bag = self.harms()
                self.random.shuffle(bag)
            count += 1
            if not self.one(bag.pop()):
                break
            time.sleep(3)
        for client in self.writers:
            client.over = True
        for client in self.writers:
            client.join(10)
        time.sleep(3)
        return self.judge(count)

    def judge(self, count):
        """Looks for each acknowledged key at each member."""
        wanted = {key for client in self.writers for key in client.acknowledged}
        lost = 0
        for name in sorted(self.pods()):
            try:
                has = self.keys(name)
            except Exception as error:
                self.fail(f"{name}: {error}")
                continue
            lacks = len(wanted - has)
            lost += lacks
            print(f"{name}: {len(has)} keys, {lacks} acknowledged ones missing, {len(has - wanted)} that nobody was acknowledged")
        refused = sum(client.refused for client in self.writers)
        print(f"seed {self.options.seed}: {count} harms, {len(wanted)} acknowledged, {lost} lost, {refused} refused, {self.failures} not recovered")
        if not self.failures:
            self.delete()
        return int(lost > 0 or self.failures > 0)


def main(chaos):
    sys.exit(chaos.run())
