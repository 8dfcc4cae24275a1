"""Real Kubernetes clusters with nodes, several on one Linux machine, for tests and trials.

A cluster is one process tree in PID, mount, network, IPC and UTS namespaces of its own: etcd,
kube-apiserver, kube-controller-manager, kube-scheduler, containerd, kubelet, kube-proxy and
CoreDNS, on one node. When its first process ends, the kernel ends all others, Pods' too, and
unmounts what they had. Clusters are joined to one another and to the machine by a bridge; nothing
of them is reachable from elsewhere, and they reach nothing else.

It needs root, cgroups, the programs of ``hack/envtest --nodes`` and Debian's containerd, runc, CNI
plugins and iptables. There is no registry: images are imported as archives.
"""
