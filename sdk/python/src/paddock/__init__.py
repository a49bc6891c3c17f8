"""Sandboxes for AI agents.

    from paddock import Sandbox

    with Sandbox.create(template="code-interpreter", ttl_seconds=600) as sandbox:
        print(sandbox.run_code("print(sum(range(101)))").stdout)

`Sandbox`, `Process`, `Contexts`, `Filesystem`, `Watch`, `Tools`, `Volumes`, `Resources`, `Secrets`, `Templates`, `Jobs`
and `Client` have twins for asyncio with the same surface, named `Async...`.
"""

from typing import TYPE_CHECKING, Any, List

from ._version import __version__

if TYPE_CHECKING:
    from ._async.client import AsyncClient
    from ._async.contexts import AsyncContexts
    from ._async.filesystem import AsyncFilesystem, AsyncWatch
    from ._async.jobs import AsyncJobs
    from ._async.process import AsyncProcess
    from ._async.resources import AsyncResources
    from ._async.sandbox import AsyncSandbox
    from ._async.secrets import AsyncSecrets
    from ._async.templates import AsyncTemplates
    from ._async.tools import AsyncTools
    from ._async.volumes import AsyncVolumes
    from ._errors import (
        ConnectionFailed,
        ContextEnded,
        ContextNotFound,
        DiskFull,
        ExecEnded,
        ExecForgotten,
        ExecNotFound,
        FileExists,
        FileNotFound,
        FilesystemError,
        Forbidden,
        GuestLost,
        GuestSilent,
        HostCertsUnusable,
        ImageFailed,
        InternalError,
        InvalidPath,
        InvalidRequest,
        JobNotFound,
        NameTaken,
        NotADirectory,
        NotAFile,
        NotEmpty,
        NotFound,
        PaddockError,
        PermissionDenied,
        PortClosed,
        QuotaExceeded,
        RequestUnderWay,
        RequirementNotMet,
        ResourceNotFound,
        SandboxEnded,
        SandboxNotFound,
        ScanDenied,
        ScanFailed,
        SecretNotFound,
        ServerNotStarted,
        SnapshotNotFound,
        StorageFailed,
        TemplateBuildFailed,
        TemplateBuilding,
        TemplateNotFound,
        TokenNotFound,
        TooLarge,
        Unauthorized,
        Unavailable,
        UnexpectedAnswer,
        UnknownField,
        UnsafeArchive,
        Unsupported,
        VolumeBusy,
        VolumeNotFound,
        WaitTimeout,
        WrongState,
    )
    from ._findings import Finding
    from ._jobs import JobArtifact, JobBest, JobInfo, JobTask
    from ._models import Cause, CodeError, CodeResult, End, Execution, Idle, Result, SandboxInfo, Usage, UsageSample
    from ._models_files import FileEntry, FileEvent, ResolvedLink, ResolvedPath
    from ._models_more import (
        Change,
        CodeContext,
        Limits,
        MergeConflict,
        MergeReport,
        Network,
        NetworkDecision,
        PortRight,
        Snapshot,
        TerminalSize,
    )
    from ._models_output import Ended, Failed, Gap, Output, OutputEvent, Shown
    from ._resources import ResourceInfo
    from ._retrying import RetryPolicy
    from ._secrets import SecretInfo
    from ._sync.client import Client
    from ._sync.contexts import Contexts
    from ._sync.filesystem import Filesystem, Watch
    from ._sync.jobs import Jobs
    from ._sync.process import Process
    from ._sync.resources import Resources
    from ._sync.sandbox import Sandbox
    from ._sync.secrets import Secrets
    from ._sync.templates import Templates
    from ._sync.tools import Tools
    from ._sync.volumes import Volumes
    from ._templates import BuildLogEntry, TemplateBuild, TemplateInfo
    from ._volumes import VolumeFile, VolumeInfo, VolumeVersion

__all__ = [
    "AsyncClient",
    "AsyncContexts",
    "AsyncFilesystem",
    "AsyncJobs",
    "AsyncProcess",
    "AsyncResources",
    "AsyncSandbox",
    "AsyncSecrets",
    "AsyncTemplates",
    "AsyncTools",
    "AsyncVolumes",
    "AsyncWatch",
    "BuildLogEntry",
    "Cause",
    "Change",
    "Client",
    "CodeContext",
    "CodeError",
    "CodeResult",
    "ConnectionFailed",
    "ContextEnded",
    "ContextNotFound",
    "Contexts",
    "DiskFull",
    "End",
    "Ended",
    "ExecEnded",
    "ExecForgotten",
    "ExecNotFound",
    "Execution",
    "Failed",
    "FileEntry",
    "FileEvent",
    "FileExists",
    "FileNotFound",
    "Filesystem",
    "FilesystemError",
    "Finding",
    "Forbidden",
    "Gap",
    "GuestLost",
    "GuestSilent",
    "Idle",
    "ImageFailed",
    "HostCertsUnusable",
    "InternalError",
    "InvalidPath",
    "InvalidRequest",
    "JobArtifact",
    "JobBest",
    "JobInfo",
    "JobNotFound",
    "JobTask",
    "Jobs",
    "Limits",
    "MergeConflict",
    "MergeReport",
    "NameTaken",
    "Network",
    "NetworkDecision",
    "NotADirectory",
    "NotAFile",
    "NotEmpty",
    "NotFound",
    "Output",
    "OutputEvent",
    "PaddockError",
    "PermissionDenied",
    "PortClosed",
    "PortRight",
    "Process",
    "QuotaExceeded",
    "RequestUnderWay",
    "RequirementNotMet",
    "ResolvedLink",
    "ResolvedPath",
    "ResourceInfo",
    "ResourceNotFound",
    "Resources",
    "Result",
    "RetryPolicy",
    "Sandbox",
    "SandboxEnded",
    "SandboxInfo",
    "SandboxNotFound",
    "ScanDenied",
    "ScanFailed",
    "SecretInfo",
    "SecretNotFound",
    "Secrets",
    "ServerNotStarted",
    "Shown",
    "Snapshot",
    "SnapshotNotFound",
    "StorageFailed",
    "TemplateBuild",
    "TemplateBuildFailed",
    "TemplateBuilding",
    "TemplateInfo",
    "TemplateNotFound",
    "Templates",
    "TerminalSize",
    "TokenNotFound",
    "TooLarge",
    "Tools",
    "Unauthorized",
    "Unavailable",
    "UnexpectedAnswer",
    "UnknownField",
    "UnsafeArchive",
    "Unsupported",
    "Usage",
    "UsageSample",
    "VolumeBusy",
    "VolumeFile",
    "VolumeInfo",
    "VolumeNotFound",
    "VolumeVersion",
    "Volumes",
    "WaitTimeout",
    "Watch",
    "WrongState",
    "__version__",
]

# Each name is imported when it is first asked for: a program that needs `Sandbox` alone does not wait for asyncio.
_MODULES = {
    "._async.client": "AsyncClient",
    "._async.contexts": "AsyncContexts",
    "._async.filesystem": "AsyncFilesystem AsyncWatch",
    "._async.jobs": "AsyncJobs",
    "._async.process": "AsyncProcess",
    "._async.resources": "AsyncResources",
    "._async.sandbox": "AsyncSandbox",
    "._async.secrets": "AsyncSecrets",
    "._async.templates": "AsyncTemplates",
    "._async.tools": "AsyncTools",
    "._async.volumes": "AsyncVolumes",
    "._errors": (
        "ConnectionFailed ContextEnded ContextNotFound DiskFull ExecEnded ExecForgotten ExecNotFound "
        "FileExists FileNotFound FilesystemError Forbidden GuestLost GuestSilent HostCertsUnusable ImageFailed "
        "InternalError InvalidPath InvalidRequest JobNotFound NameTaken NotADirectory NotAFile NotEmpty NotFound "
        "PaddockError PermissionDenied PortClosed QuotaExceeded RequestUnderWay RequirementNotMet ResourceNotFound "
        "SandboxEnded SandboxNotFound ScanDenied ScanFailed SecretNotFound ServerNotStarted SnapshotNotFound "
        "StorageFailed TemplateBuildFailed TemplateBuilding TemplateNotFound TokenNotFound TooLarge Unauthorized "
        "Unavailable UnexpectedAnswer UnknownField UnsafeArchive Unsupported VolumeBusy VolumeNotFound WaitTimeout "
        "WrongState"
    ),
    "._findings": "Finding",
    "._jobs": "JobArtifact JobBest JobInfo JobTask",
    "._models": "Cause CodeError CodeResult End Execution Idle Result SandboxInfo Usage UsageSample",
    "._models_files": "FileEntry FileEvent ResolvedLink ResolvedPath",
    "._models_more": (
        "Change CodeContext Limits MergeConflict MergeReport Network NetworkDecision PortRight Snapshot TerminalSize"
    ),
    "._models_output": "Ended Failed Gap Output OutputEvent Shown",
    "._resources": "ResourceInfo",
    "._retrying": "RetryPolicy",
    "._secrets": "SecretInfo",
    "._sync.client": "Client",
    "._sync.contexts": "Contexts",
    "._sync.filesystem": "Filesystem Watch",
    "._sync.jobs": "Jobs",
    "._sync.process": "Process",
    "._sync.resources": "Resources",
    "._sync.sandbox": "Sandbox",
    "._sync.secrets": "Secrets",
    "._sync.templates": "Templates",
    "._sync.tools": "Tools",
    "._sync.volumes": "Volumes",
    "._templates": "BuildLogEntry TemplateBuild TemplateInfo",
    "._volumes": "VolumeFile VolumeInfo VolumeVersion",
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(module, __name__), name)
    globals()[name] = value
    return value


def __dir__() -> List[str]:
    return sorted({*globals(), *__all__})
