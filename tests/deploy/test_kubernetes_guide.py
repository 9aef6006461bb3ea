"""deploy/kubernetes/README.md: what it tells its reader to do has the effect that it promises."""

from __future__ import annotations

import re
import shutil
import textwrap
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from tests.deploy.manifests import LARGE, ROOT, SMALL, Manifests
from tests.deploy.network import Peer, Policies, outside

GUIDE = (ROOT / "README.md").read_text()


@pytest.fixture(scope="module", params=[SMALL, LARGE], ids=["small", "large"])
def manifests(request: pytest.FixtureRequest) -> Manifests:
    return Manifests(request.param)


def test_what_is_applied_by_itself_names_its_namespace() -> None:
    """The guide applies these without kustomize, which names the namespace of everything else."""
    applied = re.findall(r"kubectl apply -f (\S+)", GUIDE)
    assert sorted(applied) == ["base/namespace.yaml", "my-secret.yaml"]

    for name in ("base/namespace.yaml", "secret.example.yaml"):
        for document in yaml.safe_load_all((ROOT / name).read_text()):
            is_namespace = document["kind"] == "Namespace"
            named = document["metadata"]["name" if is_namespace else "namespace"]
            assert named == "chronos", f"{name}: {document['kind']}"


def test_an_overlay_as_the_guide_has_it_is_what_its_reader_wants(tmp_path: Path) -> None:
    manifests = overlay_of_the_guide(tmp_path)

    for each in manifests.workloads:
        assert each.container["image"] == "registry.example.com/team/chronos:0.1.0"
        config = each.process.configure()
        assert len(config.broker.brokers) == len(config.election.endpoints) == 3
        assert each.environment["DRAIN_TIMEOUT"] == "30s"


def test_the_patches_of_the_guide_open_the_way_to_redis_and_to_dns_of_the_node(
    tmp_path: Path,
) -> None:
    manifests = overlay_of_the_guide(tmp_path, is_patched=True)

    policies = Policies(manifests.of("NetworkPolicy"))
    for each in manifests.workloads:
        is_scheduler = each.role == "scheduler"
        assert policies.let_out(each, Peer("servers"), 6379) == is_scheduler, each.name
        assert not policies.let_out(each, Peer("servers"), 2379), each.name
        for protocol in ("TCP", "UDP"):
            assert policies.let_out(each, outside("169.254.20.10"), 53, protocol), each.name
            assert policies.let_out(each, Peer("kube-system"), 53, protocol), each.name


def overlay_of_the_guide(directory: Path, *, is_patched: bool = False) -> Manifests:
    """`overlays/mine`, in a copy.

    Args:
        directory: an empty one.
        is_patched: with what many clusters need besides.
    """
    blocks = [
        (language, textwrap.dedent(text))
        for language, text in re.findall(r"^   ```(\w+)\n(.*?)^   ```", GUIDE, re.M | re.S)
    ]
    kustomization, patches = (text for language, text in blocks if language == "yaml")
    settings = next(text for language, text in blocks if language == "bash")
    shutil.copytree(ROOT, directory, dirs_exist_ok=True)
    mine = directory / "overlays" / "mine"
    mine.mkdir()
    (mine / "kustomization.yaml").write_text(kustomization + (patches if is_patched else ""))
    (mine / "settings.env").write_text(settings)
    return Manifests(mine)


def test_applied_in_parts_the_roles_come_in_the_order_of_an_upgrade(manifests: Manifests) -> None:
    left_out = [set(each.split(",")) for each in re.findall(r"^part (\S+) ", GUIDE, re.M)]

    steps = [before - after for before, after in pairwise([*left_out, set()])]
    assert steps == [{"executor"}, {"scheduler"}, {"fanout"}, {"api"}]
    for each in manifests.workloads:
        labels = each.document["metadata"]["labels"]
        assert labels["app.kubernetes.io/component"] == each.role
        assert (each.role in left_out[0]) == (each.role not in {"migrate", "reaper"})


def test_when_migrate_gives_up_its_words_remain(manifests: Manifests) -> None:
    """https://kubernetes.io/docs/concepts/workloads/controllers/job/#pod-backoff-failure-policy"""
    [job] = [each for each in manifests.workloads if each.role == "migrate"]

    assert job.pod["restartPolicy"] == "Never"
    name = job.document["metadata"]["name"]
    assert re.findall(r"^kubectl .*(?:logs job/|delete job )(\S+)$", GUIDE, re.M) == [name, name]


def test_the_guide_names_folders_that_are_there() -> None:
    rows = re.findall(r"^\| `([^`]+)` \|", GUIDE, re.M)

    assert len(rows) > 5
    assert all((ROOT / row).is_dir() for row in rows)
