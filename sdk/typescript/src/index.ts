/** Paddock: sandboxes for AI agents. See README.md. */

import './disposal.js'

export { Client, type CallOptions, type ClientOptions, type ServerOptions, type SnapshotListOptions } from './client.js'
export {
  Sandbox, type ForkOptions, type HibernateOptions, type ListOptions, type PartialForkOptions, type PauseOptions, type ResumeOptions, type RunCodeOptions, type Since, type SnapshotOptions,
  type UpdateOptions,
} from './sandbox.js'
export type { CreateOptions, Limits, NetworkRules, PortSettings, Secret, VolumeMount } from './create.js'
export { Commands, type Command, type PtyOptions, type RunOptions, type StartOptions, type TerminalSize } from './commands.js'
export { Process, type StreamOptions, type WaitOptions } from './process.js'
export { Files, type DownloadOptions, type FileOptions, type ReadFormat, type ReadOptions, type WriteFileOptions, type WriteOptions } from './files.js'
export { Watch } from './watch.js'
export { Contexts, type CreateContextOptions } from './contexts.js'
export { Volumes, type LiveOptions, type VolumeFile, type VolumeInfo, type VolumeReadOptions, type VolumeVersion } from './volumes.js'
export {
  Jobs, type BestOfOptions, type Candidate, type JobArtifact, type JobBest, type JobInfo, type JobSpec, type JobState, type JobTask,
} from './jobs.js'
export { Resources, type ResourceInfo } from './resources.js'
export { Secrets, type SecretInfo, type SecretOptions } from './secrets.js'
export {
  Templates, type BuildLogEntry, type BuildLogOptions, type BuildOptions, type BuildStep, type CopyOptions, type TemplateBuild, type TemplateInfo,
  type WaitForBuildOptions,
} from './templates.js'
export {
  Tools, type AnthropicTool, type OpenAIResponsesTool, type OpenAITool, type ToolCallOptions, type ToolsOptions,
} from './tools.js'
export type { ToolDefinition, ToolName } from './tool-definitions.js'
export type { CodeCallbacks, OutputCallbacks, OutputEvent, StreamName } from './output.js'
export type { RetryPolicy } from './retrying.js'
export type { Data } from './bytes.js'
export type {
  Cause, Change, CodeContext, CodeError, CodeResult, CommandResult, End, Execution, FileEntry, FileEvent, IdleAction, MergeReport,
  Network, NetworkDecision, PortRight, ResolvedLink, ResolvedPath, SandboxInfo, SandboxState, Snapshot, TtlAction, UnderPressure, Usage,
  UsageSample,
} from './models.js'
export type { components } from './generated/openapi.js'
export * from './errors-public.js'
export { VERSION } from './version.js'
