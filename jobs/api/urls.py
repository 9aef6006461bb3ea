"""The API's routes."""

from __future__ import annotations

from django.urls import path

from jobs.api import views
from jobs.api.v1 import definitions, executions, schedules

urlpatterns = [
    path("jobs", views.JobsView.as_view()),
    path("jobs/bulk", views.BulkView.as_view()),
    path("jobs/<str:id>", views.JobView.as_view()),
    path("jobs/<str:id>/cancel", views.CancelView.as_view()),
    path("jobs/<str:id>/redrive", views.RedriveView.as_view()),
    path("jobs/<str:id>/pause", views.PauseView.as_view()),
    path("jobs/<str:id>/resume", views.ResumeView.as_view()),
    path("jobs/<str:id>/run", views.RunView.as_view()),
    path("v1/definitions", definitions.DefinitionsView.as_view()),
    path("v1/definitions/<str:name>", definitions.DefinitionView.as_view()),
    path("v1/schedules", schedules.SchedulesView.as_view()),
    path("v1/schedules/bulk", schedules.ScheduleBulkView.as_view()),
    path("v1/schedules/<str:id>", schedules.ScheduleView.as_view()),
    path("v1/executions", executions.ExecutionsView.as_view()),
    path("v1/executions/<str:id>", executions.ExecutionView.as_view()),
    path("v1/executions/<str:id>/logs", executions.ExecutionLogsView.as_view()),
    path("healthz", views.HealthView.as_view()),
    path("openapi.json", views.OpenApiView.as_view()),
    path("docs", views.DocsView.as_view()),
]
