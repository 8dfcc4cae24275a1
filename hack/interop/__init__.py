"""Runs the original kube-bind's programs against ours, and says what holds.

    KONNECTOR=... BACKEND=... KUBECTL_BIND=... KONNECTOR_V2=... .venv/bin/python -m hack.interop

Each variable names a program of the original that somebody has built; nothing of it is here. Every
program meets its counterpart of ours on two control planes of its own: sandboxes, or with
``--plane real`` those of KUBEBUILDER_ASSETS (see hack/envtest).

* ``konnector``: KONNECTOR with our provider, which is bound by hand, as ``apiservice -f`` does.
* ``backend``: BACKEND with our konnector; the invitation is asked for by an object, a
  BindableResourcesRequest, which the original answers with ``--frontend-disabled``. Then with its
  front door and embedded issuer, where our command line signs in, looks, binds and signs out.
* ``cli``: KUBECTL_BIND between our konnector and our provider, with ``deploy -f`` an invitation
  and with ``apiservice -f`` a request. Then at our front door, ``provider serve``, where it signs
  in, looks and binds by template; our command line goes on with its config file, and back.
* ``door``: KUBECTL_BIND at the front door of BACKEND, and our command line after it, as above.
* ``page``: our command line binds by the page of BACKEND, and then without it. The page is one of
  scripts, so that it needs Chromium and playwright (``make browser``).
* ``kbind``: KONNECTOR_V2, the konnector of kbind v2, with a provider that runs nothing: it goes on
  with what ours has made, the other way round, and beside ours.

A person binds the same template twice, and has to get the namespace of the first time; they are
let in by the role that the original's backend makes. Sign-ins go through a scripted browser.
``--record DIR`` keeps what is said at each front door, without secrets and addresses.

KONNECTOR_ARGS, BACKEND_ARGS, KUBECTL_BIND_ARGS and KONNECTOR_V2_ARGS are added to the arguments of
each program. The programs run with an administrator's rights, on loopback. Exit codes: 0 all
holds, 1 something does not, 2 a variable is missing.
"""
