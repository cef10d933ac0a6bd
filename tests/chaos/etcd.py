#!/usr/bin/env python3
"""Does harm to an EtcdCluster on a node while three clients write; each acknowledged key has to be read from every member afterwards.

KUBECONFIG names the cluster of the node, whose operator serves EtcdCluster (examples/etcd/operator.yaml)."""
import base64
import json
import urllib.request

from harm import CLASS, Chaos, arguments, main

RESOURCE = "etcdclusters.etcd.database.coreos.com"
VERSION = "3.5.35"


def encoded(text):
    return base64.b64encode(text.encode()).decode()


def post(host, path, body, seconds=4):
    request = urllib.request.Request(f"http://{host}:2379{path}", json.dumps(body).encode())
    return json.load(urllib.request.urlopen(request, timeout=seconds))


class Etcd(Chaos):
    clients = 3
    programs = ("etcd",)
    selector = "etcd_cluster=c"
    # etcd takes two pieces of 64 MiB for its log.
    mebibytes = 512

    def __init__(self, options):
        super().__init__(options)
        one = self.one_pod
        self.kinds = {
            "kill-one": lambda: self.kill_pod(one()),
            "delete-one": lambda: self.k("delete", "pod", one(), "--wait=false"),
            "kill-process": lambda: self.signal(one(), "KILL"),
            "hang-one": lambda: self.signal(one(), "STOP"),
            "hang-all": lambda: [self.signal(pod, "STOP") for pod in self.pods()],
            "lose-volume": lambda: self.lose_volume(one()),
            "kill-operator-and-one": lambda: (self.kill_operator(), self.kill_pod(one())),
            "kill-all": lambda: [self.kill_pod(pod) for pod in self.pods()],
            "resize": self.resize,
            "full-volume": lambda: self.volumes.fill(f"data-{one()}", 15),
            "slow-volume": lambda: self.volumes.stop(f"data-{one()}", 15),
        }
        # With a volume lost, the next loss of one could be that of the quorum.
        self.seconds = ["kill-one", "kill-process", "kill-operator-and-one", "hang-one"]

    def cluster(self):
        return self.get(RESOURCE, "c")

    def status(self):
        return self.cluster().get("status", {})

    def one_pod(self):
        return self.random.choice(sorted(self.pods()))

    def resize(self):
        size = 5 if self.cluster()["spec"]["size"] == 3 else 3
        self.k("patch", RESOURCE, "c", "--type=merge", "-p", json.dumps({"spec": {"size": size}}))

    def create(self):
        self.k("apply", "-f", "-", text=f"""
apiVersion: etcd.database.coreos.com/v1beta2
kind: EtcdCluster
metadata: {{name: c}}
spec: {{size: {self.options.members}, version: "{VERSION}", repository: localhost/etcd, storage: {{size: 500Mi, className: {CLASS}, onDelete: Delete}}}}
""")

    def delete(self):
        self.k("delete", RESOURCE, "c", "--wait=true", seconds=180)

    def is_ready(self):
        cluster = self.cluster()
        status = cluster.get("status", {})
        ready = any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions", []))
        current = status.get("observedGeneration") == cluster.get("metadata", {}).get("generation")

        def is_up(pod):
            conditions = pod["status"].get("conditions", [])
            return "deletionTimestamp" not in pod["metadata"] and any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)

        return current and ready and sum(map(is_up, self.pods().values())) == cluster["spec"]["size"]

    def prepare(self):
        self.address = self.get("service", "c-client")["spec"]["clusterIP"]

    def write(self, client, number):
        key = f"{client}/{number:08d}"
        post(self.address, "/v3/kv/put", {"key": encoded(key), "value": encoded("x")})
        return key

    def keys(self, pod):
        everything = {"key": encoded("0"), "range_end": encoded("9"), "keys_only": True}
        found = post(self.pods()[pod]["status"]["podIP"], "/v3/kv/range", everything, 30)
        return {base64.b64decode(entry["key"]).decode() for entry in found.get("kvs", [])}


if __name__ == "__main__":
    main(Etcd(arguments(__doc__, "etcd-chaos", "etcd-operator")))
