//! The bodies of the HTTP API, shared by the server, the command and the tests. Requests refuse unknown fields.
//!
//! Times are milliseconds since 1970, sizes are bytes, numbers of seconds may have a fraction.

mod access;
mod audit;
mod changes;
mod cluster;
mod contexts;
mod errors;
mod execs;
mod files;
mod jobs;
mod network;
mod nodes;
mod pools;
mod ports;
mod resources;
mod sandboxes;
mod secrets;
mod server;
mod snapshots;
mod templates;
mod verify;
mod volumes;

pub use access::{
    CreateSignInCode, CreateToken, CreatedToken, Quota, Role, SignIn, SignInCode, Tenant, TenantUsage, Token,
    UpdateToken,
};
pub use audit::{AuditOutput, AuditOutputState, AuditStream};
pub use changes::{Change, ChangeKind, Changes, MergeConflict, MergeReport, MergeRequest, Since};
pub use cluster::{ClusterNode, ClusterNodes};
pub use contexts::{CodeError, CodeResult, Context, ContextState, CreateContext};
pub use errors::{ApiError, ErrorDetails};
pub use execs::{
    Exec, ExecCause, ExecState, OutputEvent, RunCode, SignalExec, StartExec, StdinReceived, StreamName,
    TerminalSize,
};
pub use files::{
    ChangeMode, FileEntry, FileEvent, FileEventKind, FileKind, FilePage, MakeDirectory, MoveFile,
    ResolvedLink, ResolvedPath, SignPath, SignedUrl,
};
pub use jobs::{
    ArrayItem, AttemptEnd, BestOf, BestRule, Candidate, Job, JobArgs, JobArray, JobArtifact, JobArtifacts,
    JobAttempt, JobBest, JobCommand, JobCost, JobCounts, JobInput, JobOnFailure, JobPage, JobPolicy,
    JobRetries, JobSpec, JobState, JobTask, JobTaskPage, RetryOn, ScoreFrom, Verifier,
};
pub use network::{NetworkDecision, NetworkView};
pub use nodes::{
    GATEWAY_CALLER_HEADER, GATEWAY_HEADER, GATEWAY_PORT_HEADER, GATEWAY_PROTOCOL, GATEWAY_PROTOCOL_HEADER,
    GatewayCaller, GatewayCallerError, NodePool, NodeReport, NodeState, gateway_protocols_meet,
};
pub use pools::{Pool, PoolMaker, PoolSize, ZygoteState};
pub use ports::{SignPort, SignedPort};
pub use resources::{Resource, ResourceList, SetResource};
pub use sandboxes::{
    CreateSandbox, End, EndCause, Event, Extend, Hibernate, Idle, IdleAction, LimitsRequest, Pause, Resume,
    Sandbox, SandboxMetrics, SandboxPage, SandboxSample, SandboxState, SandboxUsage, TtlAction,
    UnderPressure, UpdateSandbox,
};
pub use secrets::{CreateSecret, Secret, SecretPage, UpdateSecret};
pub use server::{
    CreateNumbers, HostLoad, MinuteOfCreates, ProcessLoad, SandboxCounts, ServerLoad, ServerStatus,
};
pub use snapshots::{
    CreateSnapshot, Fork, Forked, ForkedContext, LeftBehind, NotForked, Snapshot, SnapshotPage,
};
pub use templates::{
    BuildFailure, BuildLog, BuildLogEntry, BuildMaker, BuildState, BuildStep, BuildTemplate, FirstBuild,
    FirstBuildState, LogLevel, RegistryLogin, SetTag, Template, TemplateBuild, TemplateBuildPage,
    TemplateFiles, TemplateTag,
};
pub use verify::{VerifyAttack, VerifyLack, VerifyResult, VerifyResults, VerifyRow, VerifyVerdict};
pub use volumes::{
    CreateVolume, MountedVolume, OnFailure, RestoreVolume, ShareVolume, Volume, VolumeFile, VolumeFiles,
    VolumeHistory, VolumeList, VolumeMode, VolumeMount, VolumeVersion,
};
