"""Fields of other projects' kinds that pages use, each looked up in the project's CRD.

Looked up in August 2026: Argo CD 3.5, Flux's source-controller 1.9 and kustomize-controller 1.9,
CloudNativePG 1.30, kro 0.9, Crossplane 2.3. A field that a page gains is looked up there, types
and all, before it is added here.
"""

from __future__ import annotations


FIELDS = {
    ("apiextensions.crossplane.io/v1", "Composition"): """
        apiVersion kind metadata metadata.name spec spec.compositeTypeRef
        spec.compositeTypeRef.apiVersion spec.compositeTypeRef.kind spec.mode spec.pipeline
        spec.pipeline.functionRef spec.pipeline.functionRef.name spec.pipeline.input
        spec.pipeline.input.apiVersion spec.pipeline.input.kind spec.pipeline.input.resources
        spec.pipeline.input.resources.base spec.pipeline.input.resources.name
        spec.pipeline.input.resources.patches
        spec.pipeline.input.resources.patches.fromFieldPath
        spec.pipeline.input.resources.patches.toFieldPath
        spec.pipeline.input.resources.patches.type spec.pipeline.input.resources.readinessChecks
        spec.pipeline.input.resources.readinessChecks.matchCondition
        spec.pipeline.input.resources.readinessChecks.matchCondition.status
        spec.pipeline.input.resources.readinessChecks.matchCondition.type
        spec.pipeline.input.resources.readinessChecks.type spec.pipeline.step
    """,
    ("apiextensions.crossplane.io/v2", "CompositeResourceDefinition"): """
        apiVersion kind metadata metadata.name spec spec.group spec.names spec.names.kind
        spec.names.plural spec.scope spec.versions spec.versions.name
        spec.versions.referenceable spec.versions.schema spec.versions.schema.openAPIV3Schema
        spec.versions.schema.openAPIV3Schema.properties
        spec.versions.schema.openAPIV3Schema.properties.spec
        spec.versions.schema.openAPIV3Schema.properties.spec.properties
        spec.versions.schema.openAPIV3Schema.properties.spec.properties.database
        spec.versions.schema.openAPIV3Schema.properties.spec.properties.database.type
        spec.versions.schema.openAPIV3Schema.properties.spec.required
        spec.versions.schema.openAPIV3Schema.properties.spec.type
        spec.versions.schema.openAPIV3Schema.type spec.versions.served
    """,
    ("argoproj.io/v1alpha1", "Application"): """
        apiVersion kind metadata metadata.name metadata.namespace spec spec.destination
        spec.destination.namespace spec.destination.server spec.ignoreDifferences
        spec.ignoreDifferences.group spec.ignoreDifferences.kind
        spec.ignoreDifferences.managedFieldsManagers spec.project spec.source spec.source.path
        spec.source.repoURL spec.source.targetRevision spec.syncPolicy spec.syncPolicy.automated
        spec.syncPolicy.automated.prune spec.syncPolicy.automated.selfHeal
        spec.syncPolicy.syncOptions
    """,
    ("kro.run/v1alpha1", "ResourceGraphDefinition"): """
        apiVersion kind metadata metadata.name spec spec.resources spec.resources.id
        spec.resources.readyWhen spec.resources.template spec.schema spec.schema.apiVersion
        spec.schema.kind spec.schema.spec spec.schema.spec.database spec.schema.spec.image
    """,
    ("kustomize.toolkit.fluxcd.io/v1", "Kustomization"): """
        apiVersion kind metadata metadata.name metadata.namespace spec spec.interval spec.path
        spec.prune spec.sourceRef spec.sourceRef.kind spec.sourceRef.name spec.targetNamespace
        spec.timeout spec.wait
    """,
    ("postgresql.cnpg.io/v1", "Cluster"): """
        apiVersion kind metadata metadata.name metadata.namespace spec spec.bootstrap
        spec.bootstrap.initdb spec.bootstrap.initdb.database spec.bootstrap.initdb.owner
        spec.instances spec.storage spec.storage.size
    """,
    ("source.toolkit.fluxcd.io/v1", "GitRepository"): """
        apiVersion kind metadata metadata.name metadata.namespace spec spec.interval spec.ref
        spec.ref.branch spec.url
    """,
}
"""Paths of fields, apart by blanks, by apiVersion and kind."""
