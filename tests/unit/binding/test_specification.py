"""Each MUST and MUST NOT of the Service Binding specification 1.1, and the tests that prove it.

https://servicebinding.io/spec/core/1.1.0/. A sentence that demands two things has two rows.
"""

from __future__ import annotations

import ast
from collections import Counter
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.support.sources import parsed


class Requirement(NamedTuple):
    """What is demanded, in our words, and the names of tests."""

    text: str
    tests: tuple[str, ...]


def must(text: str, *tests: str) -> Requirement:
    return Requirement(text, tests)


_BOUND = "test_a_provisioned_service_is_waited_for_bound_and_unbound"
_FILES = "test_files_are_mounted_below_the_root"

MUST: dict[str, tuple[Requirement, ...]] = {
    "Provisioned Service": (
        must(
            "status.binding refers to a Secret by name",
            "test_our_own_service_says_its_secret_in_status_binding",
            "test_provisioned_services",
        ),
        must(
            "the Secret is in the namespace of the service",
            "test_the_secret_of_a_service_is_looked_for_in_its_namespace",
        ),
        must(
            "well-known entries are what their names say",
            "test_entries_of_our_own_service_are_what_their_names_say",
        ),
        must(
            "entries that are something else have other names",
            "test_what_is_no_uri_or_certificate_has_another_name_in_our_own_service",
        ),
        must(
            "a role that opts services in grants get, list and watch",
            "test_a_service_is_opted_in_with_all_that_reading_it_takes",
            "test_manifests_carry_the_labels_that_others_aggregate_by",
        ),
    ),
    "Workload Projection": (
        must("a volume is mounted at $SERVICE_BINDING_ROOT/<binding name>", _FILES, _BOUND),
        must(
            "binding names match [a-z0-9.-]{1,253}",
            "test_binding_names_that_are_allowed",
            "test_binding_names_that_are_not_allowed",
        ),
        must("SERVICE_BINDING_ROOT is declared", _FILES),
        must("the projection has a type", "test_what_keeps_a_binding_from_being_projected"),
        must(
            "a role that opts workloads in grants get, list, watch, update and patch",
            "test_workloads_are_opted_in_with_all_that_projecting_takes",
        ),
    ),
    "Service Binding": (
        must(
            "there is a kind servicebinding.io/v1 ServiceBinding",
            "test_three_versions_of_one_schema_are_served_and_v1_is_stored",
            "test_a_binding_of_any_version_is_the_same_one",
        ),
        must(
            "its schema complies with the exemplar",
            "test_a_binding_has_the_fields_of_the_exemplar",
            "test_a_binding_requires_no_more_than_the_exemplar",
        ),
        must("it has spec.workload", "test_what_is_required"),
        must("it has spec.service", "test_what_is_required"),
        must("containers are a list of strings", "test_containers_are_a_list_of_strings"),
        must("without a list all containers are bound", "test_containers_are_filtered_by_name"),
        must("each listed container is bound", "test_containers_are_filtered_by_name"),
        must("an env entry has name and key", "test_a_variable_has_a_name_and_a_key"),
        must(
            "its key is one of the Secret",
            "test_a_variable_reads_an_entry_that_is_there_or_none_is_projected",
            "test_an_entry_that_is_missing_for_a_variable_is_waited_for",
        ),
        must("its value is a variable of the workload", "test_environment"),
        must(
            "status.conditions are metav1 conditions",
            "test_a_binding_has_the_fields_of_the_exemplar",
            "test_the_status_of_the_specification",
        ),
        must(
            "one of them is Ready",
            "test_every_pass_leaves_conditions_with_ready_among_them",
        ),
        must(
            "each selected workload is handled as in a binding of its own",
            "test_one_workload_that_fails_keeps_no_other_from_being_bound",
            "test_one_of_two_workloads_that_cannot_be_projected_keeps_only_itself",
        ),
        must(
            "partial failures are aggregated on Ready",
            "test_one_workload_that_fails_keeps_no_other_from_being_bound",
            "test_one_workload_that_is_refused_keeps_no_other_from_being_written",
        ),
        must(
            "observedGeneration is metadata.generation",
            "test_every_status_is_of_the_generation_that_was_looked_at",
            "test_the_status_of_the_specification",
        ),
    ),
    "Reconciler": (
        must(
            "the Secret that the service names is mounted as a volume",
            "test_the_secret_that_the_service_names_is_a_volume_of_the_workload",
        ),
        must(
            "spec.name is the name of the directory",
            "test_a_renamed_binding_moves_its_directory",
            "test_the_volume_has_a_legal_name_and_the_directory_the_bindings",
        ),
        must("a SERVICE_BINDING_ROOT that is there is mounted below", _FILES),
        must("one that is not there is set", _FILES),
        must("and mounted below", _FILES),
        must(
            "spec.type overrides the entry type",
            "test_an_override_wins_over_secret_and_annotations",
        ),
        must(
            "spec.provider overrides the entry provider",
            "test_an_override_wins_over_secret_and_annotations",
        ),
        must(
            "an error that needs the user is in the status",
            "test_what_keeps_a_binding_from_being_projected",
            "test_refusals_end_up_in_the_status",
        ),
        must("Ready is True on success", "test_a_binding_lives_from_finalizer_to_finalizer"),
        must(
            "Ready is False when the binding cannot be completed",
            "test_what_keeps_a_binding_from_being_projected",
            _BOUND,
        ),
        must(
            "ServiceAvailable is True when the service exposes a Secret",
            "test_a_service_is_available_when_it_is_there_and_exposes_a_secret",
        ),
        must(
            "ServiceAvailable is False, with a message, when that cannot be told",
            "test_a_service_is_available_when_it_is_there_and_exposes_a_secret",
            "test_a_service_with_an_illegal_name_is_not_available",
        ),
        must(
            "a Secret is taken for what status.binding names",
            "test_a_secret_is_taken_for_what_a_service_names",
            "test_direct_secrets",
        ),
    ),
    "Workload Resource Mapping": (
        must(
            "there is a kind servicebinding.io/v1 ClusterWorkloadResourceMapping",
            "test_three_versions_of_one_schema_are_served_and_v1_is_stored",
        ),
        must("it is cluster-scoped", "test_scope_and_status"),
        must(
            "its schema complies with the exemplar",
            "test_a_mapping_has_the_fields_of_the_exemplar",
        ),
        must("its name is <plural>.<group>", "test_a_mapping_is_named_after_plural_and_group"),
        must(
            "spec.versions is an array of templates",
            "test_a_mapping_has_the_fields_of_the_exemplar",
        ),
        must("a template has a version", "test_a_mapping_has_the_fields_of_the_exemplar"),
        must(
            "annotations are at .spec.template.metadata.annotations by default",
            "test_what_a_mapping_leaves_out_is_where_a_pod_template_has_it",
        ),
        must(
            "containers are those of a pod template by default",
            "test_what_a_mapping_leaves_out_is_where_a_pod_template_has_it",
        ),
        must(
            "volumes are at .spec.template.spec.volumes by default",
            "test_what_a_mapping_leaves_out_is_where_a_pod_template_has_it",
            "test_the_mapping_of_a_version",
        ),
        must(
            "containers have a path, each match of which is one",
            "test_a_mapping_has_the_fields_of_the_exemplar",
            "test_every_match_of_a_path_is_a_container",
        ),
        must(
            "env is at .env by default",
            "test_what_a_mapping_leaves_out_is_where_a_pod_template_has_it",
        ),
        must(
            "volumeMounts are at .volumeMounts by default",
            "test_what_a_mapping_leaves_out_is_where_a_pod_template_has_it",
        ),
        must(
            "a mapping that matches is used",
            "test_a_mapping_of_the_cluster_wins_over_built_in_paths",
            "test_a_mapping_says_where_and_its_change_moves_the_projection",
        ),
        must(
            "without one the workload is taken for PodSpec-able",
            "test_what_a_mapping_leaves_out_is_where_a_pod_template_has_it",
        ),
        must(
            "what is removed is removed by the mapping of projection time",
            "test_a_changed_mapping_moves_the_projection_by_what_it_was",
            "test_a_mapping_that_changes_while_the_controller_is_down",
            "test_a_binding_goes_although_its_mapping_broke",
        ),
        must(
            "after a change of the mapping bindings are removed",
            "test_a_changed_mapping_moves_the_projection_by_what_it_was",
            "test_a_mapping_says_where_and_its_change_moves_the_projection",
        ),
        must(
            "and made again",
            "test_a_changed_mapping_moves_the_projection_by_what_it_was",
            "test_a_mapping_says_where_and_its_change_moves_the_projection",
        ),
        must(
            "with a name path the list of containers limits them",
            "test_a_name_path_is_what_containers_are_filtered_by",
        ),
        must(
            "missing values at fixed paths are made",
            "test_missing_values_at_fixed_paths_are_made_and_all_else_stays",
            "test_missing_parents_are_made",
        ),
        must(
            "what is referred to changes as in a pod template",
            "test_missing_values_at_fixed_paths_are_made_and_all_else_stays",
            "test_a_mapping_of_the_cluster_wins_over_built_in_paths",
        ),
        must(
            "what is not mapped stays",
            "test_missing_values_at_fixed_paths_are_made_and_all_else_stays",
            "test_nothing_changes_but_what_is_mapped",
        ),
    ),
    "RBAC": (
        must(
            "there is a ClusterRole that aggregates servicebinding.io/controller=true",
            "test_the_roles_have_the_names_that_the_original_gave_them",
        ),
        must(
            "it is bound to the controller",
            "test_the_roles_have_the_names_that_the_original_gave_them",
        ),
    ),
}

MUST_NOT = (
    must(
        "name and selector are not both defined",
        "test_a_spec_that_contradicts_itself_is_refused_but_can_be_deleted",
        "test_a_binding_that_contradicts_itself_says_so_and_can_be_deleted",
    ),
    must("SERVICE_BINDING_ROOT is not reset", _FILES),
    must(
        "a fixed JSONPath uses nothing but fields",
        "test_a_fixed_path_has_field_steps_alone",
        "test_what_is_no_fixed_path",
    ),
)

_ALL = [*(one for rows in MUST.values() for one in rows), *MUST_NOT]
_TESTS = Path(__file__).parents[2]


@lru_cache(maxsize=1)
def _defined() -> Counter[str]:
    """The tests of this repository by name, without those that are never run."""
    found: Counter[str] = Counter()
    for path in _TESTS.rglob("test_*.py"):
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                marks = " ".join(ast.unparse(one) for one in node.decorator_list)
                found[node.name] += "skip" not in marks and "xfail" not in marks
    return found


def test_there_is_a_row_for_each_of_them() -> None:
    assert (sum(map(len, MUST.values())), len(MUST_NOT)) == (61, 3)


@pytest.mark.parametrize("requirement", _ALL, ids=lambda one: one.text)
def test_a_requirement_has_tests_and_all_of_them_are_there(requirement: Requirement) -> None:
    assert requirement.tests
    assert [name for name in requirement.tests if not _defined()[name]] == []
