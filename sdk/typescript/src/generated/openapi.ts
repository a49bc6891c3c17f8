// Made from spec/openapi.json by scripts/types.mjs; not for editing.

export interface paths {
    "/docs": {
        parameters: {
        };
        get: operations["reference"];
    };
    "/healthz": {
        parameters: {
        };
        get: operations["alive"];
    };
    "/metrics": {
        parameters: {
        };
        get: operations["read_metrics"];
    };
    "/openapi.json": {
        parameters: {
        };
        get: operations["openapi_document"];
    };
    "/readyz": {
        parameters: {
        };
        get: operations["ready"];
    };
    "/v1/events": {
        parameters: {
        };
        get: operations["follow_events"];
    };
    "/v1/jobs": {
        parameters: {
        };
        get: operations["list_jobs"];
        post: operations["submit_job"];
    };
    "/v1/jobs/{job}": {
        parameters: {
        };
        get: operations["get_job"];
        delete: operations["remove_job"];
    };
    "/v1/jobs/{job}/artifacts": {
        parameters: {
        };
        get: operations["list_job_artifacts"];
    };
    "/v1/jobs/{job}/artifacts/content": {
        parameters: {
        };
        get: operations["read_job_artifact"];
    };
    "/v1/jobs/{job}/cancel": {
        parameters: {
        };
        post: operations["cancel_job"];
    };
    "/v1/jobs/{job}/logs": {
        parameters: {
        };
        get: operations["job_logs"];
    };
    "/v1/jobs/{job}/tasks": {
        parameters: {
        };
        get: operations["list_job_tasks"];
    };
    "/v1/jobs/{job}/tasks/{index}": {
        parameters: {
        };
        get: operations["get_job_task"];
    };
    "/v1/node": {
        parameters: {
        };
        get: operations["node_report"];
    };
    "/v1/node/cordon": {
        parameters: {
        };
        post: operations["cordon_node"];
    };
    "/v1/node/uncordon": {
        parameters: {
        };
        post: operations["uncordon_node"];
    };
    "/v1/pools": {
        parameters: {
        };
        get: operations["list_pools"];
    };
    "/v1/pools/{template}": {
        parameters: {
        };
        get: operations["get_pool"];
        put: operations["set_pool"];
        delete: operations["delete_pool"];
    };
    "/v1/resources": {
        parameters: {
        };
        get: operations["list_resources"];
    };
    "/v1/resources/{resource}": {
        parameters: {
        };
        get: operations["get_resource"];
        put: operations["set_resource"];
        delete: operations["remove_resource"];
    };
    "/v1/sandboxes": {
        parameters: {
        };
        get: operations["list_sandboxes"];
        post: operations["create_sandbox"];
    };
    "/v1/sandboxes/{id}": {
        parameters: {
        };
        get: operations["get_sandbox"];
        delete: operations["kill_sandbox"];
        patch: operations["update_sandbox"];
    };
    "/v1/sandboxes/{id}/audit": {
        parameters: {
        };
        get: operations["sandbox_audit"];
    };
    "/v1/sandboxes/{id}/audit/outputs": {
        parameters: {
        };
        get: operations["sandbox_audit_outputs"];
    };
    "/v1/sandboxes/{id}/changes": {
        parameters: {
        };
        get: operations["list_changes"];
    };
    "/v1/sandboxes/{id}/changes/archive": {
        parameters: {
        };
        get: operations["changes_archive"];
    };
    "/v1/sandboxes/{id}/changes/patch": {
        parameters: {
        };
        get: operations["changes_patch"];
    };
    "/v1/sandboxes/{id}/code": {
        parameters: {
        };
        post: operations["run_code"];
    };
    "/v1/sandboxes/{id}/contexts": {
        parameters: {
        };
        get: operations["list_contexts"];
        post: operations["create_context"];
    };
    "/v1/sandboxes/{id}/contexts/{context}": {
        parameters: {
        };
        get: operations["get_context"];
        delete: operations["delete_context"];
    };
    "/v1/sandboxes/{id}/contexts/{context}/interrupt": {
        parameters: {
        };
        post: operations["interrupt_context"];
    };
    "/v1/sandboxes/{id}/contexts/{context}/restart": {
        parameters: {
        };
        post: operations["restart_context"];
    };
    "/v1/sandboxes/{id}/execs": {
        parameters: {
        };
        get: operations["list_execs"];
        post: operations["start_exec"];
    };
    "/v1/sandboxes/{id}/execs/{exec}": {
        parameters: {
        };
        get: operations["get_exec"];
        delete: operations["kill_exec"];
    };
    "/v1/sandboxes/{id}/execs/{exec}/output": {
        parameters: {
        };
        get: operations["exec_output"];
    };
    "/v1/sandboxes/{id}/execs/{exec}/resize": {
        parameters: {
        };
        post: operations["resize_exec"];
    };
    "/v1/sandboxes/{id}/execs/{exec}/signal": {
        parameters: {
        };
        post: operations["signal_exec"];
    };
    "/v1/sandboxes/{id}/execs/{exec}/stderr": {
        parameters: {
        };
        get: operations["exec_stderr"];
    };
    "/v1/sandboxes/{id}/execs/{exec}/stdin": {
        parameters: {
        };
        post: operations["exec_stdin"];
    };
    "/v1/sandboxes/{id}/execs/{exec}/stdout": {
        parameters: {
        };
        get: operations["exec_stdout"];
    };
    "/v1/sandboxes/{id}/execs/{exec}/wait": {
        parameters: {
        };
        get: operations["wait_exec"];
    };
    "/v1/sandboxes/{id}/extend": {
        parameters: {
        };
        post: operations["extend_sandbox"];
    };
    "/v1/sandboxes/{id}/files": {
        parameters: {
        };
        get: operations["list_files"];
        delete: operations["delete_file"];
    };
    "/v1/sandboxes/{id}/files/archive": {
        parameters: {
        };
        get: operations["download_archive"];
        put: operations["upload_archive"];
    };
    "/v1/sandboxes/{id}/files/content": {
        parameters: {
        };
        get: operations["read_file"];
        put: operations["write_file"];
    };
    "/v1/sandboxes/{id}/files/directory": {
        parameters: {
        };
        post: operations["make_directory"];
    };
    "/v1/sandboxes/{id}/files/exists": {
        parameters: {
        };
        get: operations["file_exists"];
    };
    "/v1/sandboxes/{id}/files/mode": {
        parameters: {
        };
        post: operations["change_mode"];
    };
    "/v1/sandboxes/{id}/files/move": {
        parameters: {
        };
        post: operations["move_file"];
    };
    "/v1/sandboxes/{id}/files/resolve": {
        parameters: {
        };
        get: operations["resolve_path"];
    };
    "/v1/sandboxes/{id}/files/sign": {
        parameters: {
        };
        post: operations["sign_path"];
    };
    "/v1/sandboxes/{id}/files/stat": {
        parameters: {
        };
        get: operations["stat_file"];
    };
    "/v1/sandboxes/{id}/files/watch": {
        parameters: {
        };
        get: operations["watch_files"];
    };
    "/v1/sandboxes/{id}/fork": {
        parameters: {
        };
        post: operations["fork_sandbox"];
    };
    "/v1/sandboxes/{id}/hibernate": {
        parameters: {
        };
        post: operations["hibernate_sandbox"];
    };
    "/v1/sandboxes/{id}/merge": {
        parameters: {
        };
        post: operations["merge_changes"];
    };
    "/v1/sandboxes/{id}/metrics": {
        parameters: {
        };
        get: operations["sandbox_metrics"];
    };
    "/v1/sandboxes/{id}/network": {
        parameters: {
        };
        get: operations["get_network"];
    };
    "/v1/sandboxes/{id}/pause": {
        parameters: {
        };
        post: operations["pause_sandbox"];
    };
    "/v1/sandboxes/{id}/ports/{port}/{path}": {
        parameters: {
        };
        get: operations["through_port_get"];
        put: operations["through_port_put"];
        post: operations["through_port_post"];
        delete: operations["through_port_delete"];
        options: operations["through_port_options"];
        head: operations["through_port_head"];
        patch: operations["through_port_patch"];
    };
    "/v1/sandboxes/{id}/ports/sign": {
        parameters: {
        };
        post: operations["sign_port"];
    };
    "/v1/sandboxes/{id}/resume": {
        parameters: {
        };
        post: operations["resume_sandbox"];
    };
    "/v1/sandboxes/{id}/snapshots": {
        parameters: {
        };
        post: operations["create_snapshot"];
    };
    "/v1/sandboxes/{id}/usage": {
        parameters: {
        };
        get: operations["sandbox_usage"];
    };
    "/v1/sandboxes/{id}/volumes/{volume}/checkpoint": {
        parameters: {
        };
        post: operations["checkpoint_volume"];
    };
    "/v1/sandboxes/{id}/wake": {
        parameters: {
        };
        post: operations["wake_sandbox"];
    };
    "/v1/secrets": {
        parameters: {
        };
        get: operations["list_secrets"];
        post: operations["create_secret"];
    };
    "/v1/secrets/{secret}": {
        parameters: {
        };
        get: operations["get_secret"];
        put: operations["update_secret"];
        delete: operations["remove_secret"];
    };
    "/v1/server": {
        parameters: {
        };
        get: operations["server_status"];
    };
    "/v1/server/load": {
        parameters: {
        };
        get: operations["server_load"];
    };
    "/v1/server/stop": {
        parameters: {
        };
        post: operations["stop_server"];
    };
    "/v1/sign-in": {
        parameters: {
        };
        post: operations["sign_in"];
    };
    "/v1/sign-in-codes": {
        parameters: {
        };
        post: operations["create_sign_in_code"];
    };
    "/v1/signed/{token}": {
        parameters: {
        };
        get: operations["read_signed"];
        put: operations["write_signed"];
    };
    "/v1/snapshots": {
        parameters: {
        };
        get: operations["list_snapshots"];
    };
    "/v1/snapshots/{snapshot}": {
        parameters: {
        };
        get: operations["get_snapshot"];
        delete: operations["delete_snapshot"];
    };
    "/v1/template-builds": {
        parameters: {
        };
        get: operations["list_template_builds"];
        post: operations["build_template"];
    };
    "/v1/template-builds/{build}": {
        parameters: {
        };
        get: operations["get_template_build"];
    };
    "/v1/template-builds/{build}/log": {
        parameters: {
        };
        get: operations["template_build_log"];
    };
    "/v1/template-files/{hash}": {
        parameters: {
        };
        put: operations["upload_template_files"];
    };
    "/v1/templates": {
        parameters: {
        };
        get: operations["list_templates"];
    };
    "/v1/templates/{template}": {
        parameters: {
        };
        get: operations["get_template"];
        delete: operations["delete_template"];
    };
    "/v1/templates/{template}/tags/{tag}": {
        parameters: {
        };
        put: operations["set_template_tag"];
        delete: operations["remove_template_tag"];
    };
    "/v1/tenants": {
        parameters: {
        };
        get: operations["list_tenants"];
    };
    "/v1/tenants/{tenant}/quota": {
        parameters: {
        };
        put: operations["set_quota"];
    };
    "/v1/tenants/{tenant}/tokens": {
        parameters: {
        };
        delete: operations["revoke_tokens"];
    };
    "/v1/tokens": {
        parameters: {
        };
        get: operations["list_tokens"];
        post: operations["create_token"];
    };
    "/v1/tokens/{token}": {
        parameters: {
        };
        delete: operations["revoke_token"];
        patch: operations["update_token"];
    };
    "/v1/verify": {
        parameters: {
        };
        get: operations["last_verify"];
    };
    "/v1/volumes": {
        parameters: {
        };
        get: operations["list_volumes"];
        post: operations["create_volume"];
    };
    "/v1/volumes/{volume}": {
        parameters: {
        };
        get: operations["get_volume"];
        delete: operations["remove_volume"];
    };
    "/v1/volumes/{volume}/files": {
        parameters: {
        };
        get: operations["volume_files"];
        delete: operations["delete_volume_file"];
    };
    "/v1/volumes/{volume}/files/content": {
        parameters: {
        };
        get: operations["read_volume_file"];
        put: operations["write_volume_file"];
    };
    "/v1/volumes/{volume}/files/directory": {
        parameters: {
        };
        post: operations["make_volume_directory"];
    };
    "/v1/volumes/{volume}/files/mode": {
        parameters: {
        };
        post: operations["change_volume_mode"];
    };
    "/v1/volumes/{volume}/files/stat": {
        parameters: {
        };
        get: operations["stat_volume_file"];
    };
    "/v1/volumes/{volume}/history": {
        parameters: {
        };
        get: operations["volume_history"];
    };
    "/v1/volumes/{volume}/restore": {
        parameters: {
        };
        post: operations["restore_volume"];
    };
    "/v1/volumes/{volume}/share": {
        parameters: {
        };
        post: operations["share_volume"];
    };
    "/v1/whoami": {
        parameters: {
        };
        get: operations["who_am_i"];
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /** @description Every answer that is not a success. */
        ApiError: {
            /** @description Stable, for programs: `sandbox_not_found`, `quota_exceeded`, ... */
            code: string;
            details?: components["schemas"]["ErrorDetails"] | null;
            /** @description The way to mend it. */
            hint?: string | null;
            /** @description The mistake, with the value. */
            message: string;
            request_id: string;
        };
        /** @description Settings of one task, beside those of all. */
        ArrayItem: {
            /** @default null */
            args?: components["schemas"]["JobArgs"] | null;
            /** @default {} */
            env?: {
                [key: string]: string;
            };
        };
        /** @enum {string} */
        AttemptEnd: "succeeded" | "exit" | "timeout" | "out_of_memory" | "lost" | "refused" | "outputs" | "cancelled";
        /** @description The output of one call, as the audit keeps it. */
        AuditOutput: {
            /** Format: int64 */
            at_ms: number;
            error?: components["schemas"]["CodeError"] | null;
            /** Format: int32 */
            exec: number;
            /** @description The reason why it is not. */
            problem?: string | null;
            /** @description Of code, in the form of `results` of an exec. Representations over 4 KiB are replaced by their length and digest. */
            results?: Record<string, never>[];
            /** Format: int64 */
            results_left_out?: number;
            /**
             * Format: int64
             * @description The entry of the timeline that tells of the call's end.
             */
            seq: number;
            state: components["schemas"]["AuditOutputState"];
            stderr?: components["schemas"]["AuditStream"] | null;
            stdout?: components["schemas"]["AuditStream"] | null;
            /**
             * @description True if the entry is signed by this server, names exactly this output, and has the digest of every stream of which nothing
             *     was left out.
             */
            verified: boolean;
        };
        /** @enum {string} */
        AuditOutputState: "kept" | "nothing" | "off" | "full" | "failed" | "removed";
        /** @description The kept part of one stream. */
        AuditStream: {
            /**
             * Format: int64
             * @description Of all that was printed, as the signed entry has it.
             */
            bytes: number;
            /** @description Base64 of the beginning, at most 32 KiB. */
            first: string;
            /** @description Base64 of the end, at most 32 KiB. */
            last: string;
            /**
             * Format: int64
             * @description Bytes between the two parts.
             */
            left_out: number;
            sha256: string;
        };
        BestOf: {
            /** @description 1 to 100. */
            candidates: components["schemas"]["Candidate"][];
            /**
             * Format: double
             * @description With `best_score`: a candidate that has so much wins at once, and the others are stopped.
             */
            enough?: number | null;
            rule?: components["schemas"]["BestRule"];
            /**
             * @description A sandbox (id or name) whose files, as they are when the job is sent, all candidates begin with. Without it they
             *     begin with the job's `snapshot`, `template` or `image`.
             */
            sandbox?: string | null;
            verifier: components["schemas"]["Verifier"];
        };
        /** @enum {string} */
        BestRule: "first_pass" | "best_score";
        BuildFailure: {
            message: string;
            /** @description `base`, the number of the step from 1 on, or `finalize` for the start and the ready command. */
            step?: string | null;
        };
        BuildLog: {
            entries: components["schemas"]["BuildLogEntry"][];
        };
        BuildLogEntry: {
            /** Format: int64 */
            at_ms: number;
            level: components["schemas"]["LogLevel"];
            message: string;
            /** @description As in a failure. */
            step?: string | null;
        };
        /** @enum {string} */
        BuildMaker: "tenant" | "command";
        /** @enum {string} */
        BuildState: "waiting" | "building" | "ready" | "failed";
        /** @description One step of a build. `force`: it is done again, whatever is kept of an earlier build. */
        BuildStep: {
            command: string;
            force?: boolean;
            /** @enum {string} */
            kind: "run";
            user?: string | null;
        } | {
            files: string;
            force?: boolean;
            from: string;
            /** @enum {string} */
            kind: "copy";
            /** @description Permissions in octal digits, as in `0755`. */
            mode?: string | null;
            to: string;
            /** @description The owner, as `user` or `user:group`. */
            user?: string | null;
        } | {
            /** @enum {string} */
            kind: "env";
            variables: {
                [key: string]: string;
            };
        } | {
            force?: boolean;
            /** @enum {string} */
            kind: "workdir";
            path: string;
        } | {
            /** @enum {string} */
            kind: "user";
            name: string;
        };
        BuildTemplate: {
            /**
             * Format: double
             * @default null
             */
            cpus?: number | null;
            /**
             * @description An image of a registry that the build begins with.
             * @default null
             */
            image?: string | null;
            /**
             * Format: int64
             * @default null
             */
            memory_bytes?: number | null;
            /**
             * Format: int64
             * @description What each of its sandboxes can write at least. Their disk has this limit, where that of the default or of the template that the
             *     build begins with is smaller; more than the server's disk has free is refused.
             * @default null
             */
            min_free_disk_bytes?: number | null;
            /**
             * @description The template's name among the tenant's own; `NAME:TAG` names a tag too.
             * @default
             */
            name?: string;
            /**
             * @description True: every step is done again.
             * @default false
             */
            no_cache?: boolean;
            /**
             * @description A line for the shell that succeeds when the start command is ready. The build tries both; a create waits for it.
             * @default null
             */
            ready?: string | null;
            /** @default null */
            registry?: components["schemas"]["RegistryLogin"] | null;
            /**
             * @description A line for the shell that is started in every sandbox of the template.
             * @default null
             */
            start?: string | null;
            /** @default [] */
            steps?: components["schemas"]["BuildStep"][];
            /**
             * @description The tags that the build gets when it is done; without any, `default`.
             * @default []
             */
            tags?: string[];
            /**
             * @description The template that the build begins with, in the place of an image.
             * @default null
             */
            template?: string | null;
        };
        /** @description The work that is tried: one of `command` and `code`. */
        Candidate: {
            /** @default null */
            code?: string | null;
            /** @default null */
            command?: components["schemas"]["JobCommand"] | null;
            /** @default {} */
            env?: {
                [key: string]: string;
            };
            /** @default null */
            language?: string | null;
        };
        Change: {
            entry?: components["schemas"]["FileEntry"] | null;
            kind: components["schemas"]["ChangeKind"];
            path: string;
        };
        /** @enum {string} */
        ChangeKind: "added" | "modified" | "deleted";
        ChangeMode: {
            /** Format: int32 */
            mode: number;
            path: string;
        };
        Changes: {
            /** @description Sorted by path. */
            changes: components["schemas"]["Change"][];
            since: components["schemas"]["Since"];
        };
        /** @description Why code did not come to its end: an exception of its own, or the end of its interpreter. */
        CodeError: {
            /** @description The exception's name; `ContextDied` where the interpreter itself has gone. */
            name: string;
            traceback: string;
            value: string;
        };
        /** @description One value in several representations. All but `json`, `data` and `chart` are text; `png`, `jpeg` and `pdf` are base64. */
        CodeResult: {
            /** @description Content of a figure: `type`, `title`, axes and `elements`, so that a client can draw it itself. */
            chart?: Record<string, never> | null;
            /**
             * @description Representations that were left out or cut because they were too large.
             * @default []
             */
            cut?: string[];
            /** @description A table: `columns`, `rows` (the first of them) and `total_rows`. */
            data?: Record<string, never> | null;
            /**
             * @description Other representations, by their media type; base64 where they are not text.
             * @default {}
             */
            extra?: {
                [key: string]: string;
            };
            /** @default null */
            html?: string | null;
            /** @default null */
            javascript?: string | null;
            /** @default null */
            jpeg?: string | null;
            json?: Record<string, never> | null;
            /** @default null */
            latex?: string | null;
            /**
             * @description The value of the code's last expression, rather than something that it displayed.
             * @default false
             */
            main?: boolean;
            /** @default null */
            markdown?: string | null;
            /** @default null */
            pdf?: string | null;
            /** @default null */
            png?: string | null;
            /** @default null */
            svg?: string | null;
            /** @default null */
            text?: string | null;
        };
        Context: {
            cause?: components["schemas"]["ExecCause"] | null;
            cwd?: string | null;
            /** @description Made by itself at the first call that named no context; such a one begins anew by itself, too. */
            default: boolean;
            /**
             * Format: int32
             * @description The exec that is its interpreter. What is printed between calls is that exec's output.
             */
            exec: number;
            id: string;
            language: string;
            sandbox: string;
            /**
             * Format: int64
             * @description When this interpreter began.
             */
            started_at_ms: number;
            state: components["schemas"]["ContextState"];
            /**
             * Format: int32
             * @description Calls that wait for their turn.
             */
            waiting: number;
        };
        ContextList: {
            contexts: components["schemas"]["Context"][];
        };
        /** @enum {string} */
        ContextState: "idle" | "busy" | "ended";
        CreateContext: {
            /**
             * @description Where it begins; the sandbox's own without it.
             * @default null
             */
            cwd?: string | null;
            /**
             * @description Added to the sandbox's, for as long as the context lives.
             * @default {}
             */
            env?: {
                [key: string]: string;
            };
            /**
             * @description A name of the caller's own, unique in the sandbox: letters, digits, `-`, `_` and `.`. One is made up without it.
             * @default null
             */
            id?: string | null;
            /**
             * @description `python` (default), `javascript`, `typescript`, `bash`, or one for which the template has a runner.
             * @default null
             */
            language?: string | null;
        };
        CreatedToken: components["schemas"]["Token"] & {
            /** @description Shown once: only its hash is kept. */
            secret: string;
        };
        CreateNumbers: {
            /** Format: int64 */
            created_total: number;
            /** Format: int64 */
            failed_total: number;
            /**
             * Format: double
             * @description The time of half of the last creates by `POST /v1/sandboxes`, 500 at most, and of 95 % of them; absent before the first.
             */
            median_ms?: number | null;
            /** @description The last hour, the oldest minute first; minutes without a create are left out. */
            minutes: components["schemas"]["MinuteOfCreates"][];
            /** Format: double */
            p95_ms?: number | null;
            /**
             * Format: int64
             * @description Creates that wait for room.
             */
            waiting: number;
        };
        CreateSandbox: {
            /**
             * @description Modules that code may import, with what is below them; absent: any. Needs `scan`. Only what the template's and the
             *     snapshot's lists allow too.
             * @default null
             */
            allowed_imports?: string[] | null;
            /**
             * @description True (default): the audit keeps the output of commands and code, sealed. False: their digests only. The template's word counts
             *     before this one.
             * @default null
             */
            audit_outputs?: boolean | null;
            /** @default null */
            backend?: string | null;
            /**
             * @description True: the ordinary user inside may become root by `sudo`, without a password. Root has the rights that `root_may_install` gives
             *     it, or none. Not created where that cannot be had, or the server's owner forbids it. By default as the template has it, else
             *     false.
             * @default null
             */
            become_root?: boolean | null;
            /** @default null */
            cwd?: string | null;
            /** @default {} */
            env?: {
                [key: string]: string;
            };
            /**
             * @description True: clients inside believe the certificates that the server's host believes, as a network that inspects TLS needs
             *     it: the host's store, and those that SSL_CERT_FILE, SSL_CERT_DIR, NODE_EXTRA_CA_CERTS, PIP_CERT and their like name in the
             *     server's environment. By default as the template has it, else not.
             * @default null
             */
            host_certs?: boolean | null;
            /** @default null */
            hostname?: string | null;
            /** @default null */
            idle?: components["schemas"]["Idle"] | null;
            /**
             * @description A directory, an archive or a registry reference. Paths of the host only for the host's owner.
             * @default null
             */
            image?: string | null;
            /**
             * @default {
             *       "cpus": null,
             *       "disk_bytes": null,
             *       "exec_timeout_seconds": null,
             *       "memory_bytes": null,
             *       "open_files": null,
             *       "output_bytes": null,
             *       "pids": null
             *     }
             */
            limits?: components["schemas"]["LimitsRequest"];
            /**
             * @description True: it begins with the code contexts that the snapshot keeps. By default where it can, unless another token made the
             *     sandbox that they come from: that sandbox's code has rights over whatever begins with its contexts. `true`: not created
             *     where it cannot. `false`: the files alone.
             * @default null
             */
            live?: boolean | null;
            /**
             * @description True: it is made so that its code contexts can be forked as they stand. By default where that is possible, which its
             *     guarantees tell (`fork`). `true`: not created where it is not. `false`: forks have its files alone, and nothing of the
             *     fence is weaker for their sake.
             * @default null
             */
            live_forks?: boolean | null;
            /** @default {} */
            metadata?: {
                [key: string]: string;
            };
            /**
             * @description A name of the caller's own, unique among the tenant's living sandboxes; usable wherever an id is.
             * @default null
             */
            name?: string | null;
            /** @default null */
            network?: components["schemas"]["NetSetting"] | null;
            /**
             * @description Left alone by the idle reaper and by the SDK's context managers.
             * @default false
             */
            persistent?: boolean;
            /**
             * @description Ports inside that answer everybody, and the host that programs there are asked as.
             * @default {}
             */
            ports?: components["schemas"]["PortSettings"];
            /**
             * @description Names in the workspace that stay read-only besides the built-in ones.
             * @default []
             */
            protect?: string[];
            /**
             * @description `image` was chosen by somebody else, such as a model or a script: its registry has to be at a public address, or be one
             *     that the server names, also for the host's owner.
             * @default false
             */
            public_image?: boolean;
            /**
             * @description HOST[:INSIDE], read-only. Only for the host's owner.
             * @default []
             */
            read?: string[];
            /**
             * @description Guarantees without which nothing is created, such as `memory-limit` or `own-kernel`.
             * @default []
             */
            require?: string[];
            /**
             * @description True: root inside (`user: root` of it or of an exec) may install packages and manage users. It has six capabilities over the
             *     sandbox's own files and ids, and none over anything else; `guarantees.root_capabilities` names them. Not created where that
             *     cannot be had, or the server's owner forbids it. By default as the template has it, else false: root has no capability.
             * @default null
             */
            root_may_install?: boolean | null;
            /**
             * @description Look at code before it runs: `off` (default), `warn` or `deny`. Never weaker than the template's or the snapshot's.
             * @default null
             */
            scan?: string | null;
            /**
             * @description Values that never enter: by the variable that holds a placeholder inside.
             * @default {}
             */
            secrets?: {
                [key: string]: components["schemas"]["SecretLayer"];
            };
            /**
             * @description Begin with the files of this snapshot (id or name), and with the user, working directory, limits and other settings that its sandbox
             *     had, where neither `template` nor another field says otherwise. Not among them: network rules, public ports, secrets, values of variables that a
             *     caller gave, directories of the host, `root_may_install` and `become_root`.
             * @default null
             */
            snapshot?: string | null;
            /**
             * @description A template that `paddock template ls` lists. `code-interpreter` always exists.
             * @default null
             */
            template?: string | null;
            /** @default [] */
            tmpfs?: string[];
            /** @default null */
            ttl_action?: components["schemas"]["TtlAction"] | null;
            /**
             * Format: double
             * @description Ends the sandbox so many seconds from now, whatever happens. Default 3600; `null` with `persistent`.
             * @default null
             */
            ttl_seconds?: number | null;
            /** @default null */
            under_pressure?: components["schemas"]["UnderPressure"] | null;
            /** @default [] */
            unprotect?: string[];
            /**
             * @description User of commands: `agent` (default), `root`, a name of the image, UID or UID:GID.
             * @default null
             */
            user?: string | null;
            /**
             * @description Directories that outlive the sandbox; at most ten.
             * @default []
             */
            volumes?: components["schemas"]["VolumeMount"][];
            /**
             * @description A directory of the host at /workspace. Only for the host's owner.
             * @default null
             */
            workspace?: string | null;
            /**
             * @description HOST[:INSIDE], writable. Only for the host's owner.
             * @default []
             */
            write?: string[];
        };
        CreateSecret: {
            /** @description The hosts that it may be sent to. A sandbox has it with `from = "secret:NAME"` of its secrets, for these hosts and no others. */
            hosts?: string[];
            /** @description Its owner's own words about it, which are shown. */
            metadata?: {
                [key: string]: string;
            };
            /** @description 1 to 256 characters, without control characters, `{` and `}`. */
            name: string;
            /** @description 8 to 16,384 printable characters; encrypted at rest, and never shown. */
            value: string;
        };
        /** @description A code that a browser exchanges for a token, once. */
        CreateSignInCode: {
            role: components["schemas"]["Role"];
            /** @description Other tenants than one's own only for the host's owner. */
            tenant?: string | null;
            /**
             * Format: double
             * @description How long the token will be valid, from the exchange. Default 28800 (8 hours).
             */
            token_seconds?: number | null;
        };
        CreateSnapshot: {
            /**
             * @description True: the code contexts are kept too, with all that they know, so that a sandbox with the snapshot begins with them. They
             *     are kept in memory, in a sandbox that counts as one of the tenant's, until the snapshot is deleted or was not used for a
             *     day. An error if one cannot be.
             * @default false
             */
            live?: boolean;
            /**
             * @description Whether its memory is kept too, so that a sandbox with the snapshot goes on where this one stood. By default it is where the
             *     backend keeps memory. `true`: it is an error where the backend does not. `false`: the files alone are kept.
             * @default null
             */
            memory?: boolean | null;
            /**
             * @description Unique among the tenant's snapshots.
             * @default null
             */
            name?: string | null;
        };
        CreateToken: {
            /** @description For people. */
            label?: string | null;
            role: components["schemas"]["Role"];
            /** @description 1 to 64 of a-z, 0-9, `-`, `_` and `.`. Other tenants than one's own only for the host's owner. */
            tenant?: string | null;
            /**
             * Format: double
             * @description It ends by itself so many seconds from now; absent: it is valid until it is revoked.
             */
            ttl_seconds?: number | null;
        };
        CreateVolume: {
            /** @description 2 to 255 of A-Z, a-z, 0-9, `-`, `_` and `.`, with a letter or digit at both ends and no `..`. */
            name: string;
        };
        /** @description How and why a sandbox ended. */
        End: {
            /** Format: int64 */
            at_ms: number;
            cause: components["schemas"]["EndCause"];
            /** @description The last bytes that its last exec printed, for people. */
            last_output: string;
            /** @description The same in words. */
            reason: string;
            usage: components["schemas"]["SandboxUsage"];
        };
        EndCause: {
            /** @enum {string} */
            kind: "killed";
        } | {
            /** @enum {string} */
            kind: "failed";
        } | {
            /** @enum {string} */
            kind: "time_to_live";
        } | {
            /** @enum {string} */
            kind: "idle";
        } | {
            /** @enum {string} */
            kind: "out_of_memory";
        } | {
            /** @enum {string} */
            kind: "limit";
            limit: string;
        } | {
            /** @enum {string} */
            kind: "policy";
            rule: string;
        } | {
            detail: string;
            /** @enum {string} */
            kind: "guest_lost";
        } | {
            /** @enum {string} */
            kind: "host_restarted";
        } | {
            detail: string;
            /** @enum {string} */
            kind: "work_failed";
        } | {
            detail: string;
            /** @enum {string} */
            kind: "create_failed";
        };
        ErrorDetails: {
            /**
             * @description Of `scan_denied`: what was found in the code, at most 100.
             * @default []
             */
            findings?: components["schemas"]["Finding"][];
            /**
             * Format: int64
             * @description Findings beyond those.
             * @default 0
             */
            findings_missing?: number;
        };
        /** @description One line of the event stream. */
        Event: {
            /** Format: int64 */
            at_ms: number;
            detail?: string | null;
            /** @description `created`, `paused`, `resumed`, `hibernated`, `woken`, `snapshot`, `forked`, `exec_started`, `exec_ended`, `ended`. */
            kind: string;
            sandbox: string;
        };
        /** @description One command, running or ended. Output is filled in once it has ended. */
        Exec: {
            cause?: components["schemas"]["ExecCause"] | null;
            /** @description The command as it was given, as one line. */
            command: string;
            /** @description The context that the code ran in, or whose interpreter this is. */
            context?: string | null;
            context_restarted?: components["schemas"]["ExecCause"] | null;
            /** Format: int64 */
            ended_at_ms?: number | null;
            error?: components["schemas"]["CodeError"] | null;
            /** Format: int32 */
            exec: number;
            /**
             * Format: int32
             * @description The command's own, or 128 and the signal's number; 124 after a time limit, as in a shell.
             */
            exit_code?: number | null;
            /** @description Of code that was scanned before it ran: what was found in it, at most 100. */
            findings?: components["schemas"]["Finding"][];
            /**
             * Format: int64
             * @description Findings beyond those.
             */
            findings_missing?: number;
            /** @description Of code, once it has ended: what it displayed, and the value of its last expression. */
            results?: components["schemas"]["CodeResult"][];
            /**
             * Format: int64
             * @description Results that were not kept because there were too many.
             */
            results_missing?: number;
            sandbox: string;
            /** Format: int64 */
            started_at_ms: number;
            state: components["schemas"]["ExecState"];
            stderr: string;
            /** Format: int64 */
            stderr_bytes: number;
            /** Format: int64 */
            stderr_missing_bytes: number;
            /** @description Text; bytes that are not UTF-8 are replaced. The exact bytes are at `.../stdout` and `.../stderr`. */
            stdout: string;
            /** Format: int64 */
            stdout_bytes: number;
            /**
             * Format: int64
             * @description Bytes in the middle that were not kept.
             */
            stdout_missing_bytes: number;
            timed_out: boolean;
        };
        ExecCause: {
            /** @enum {string} */
            kind: "exited";
        } | {
            /** @enum {string} */
            kind: "signaled";
            /** Format: int32 */
            signal: number;
        } | {
            /** @enum {string} */
            kind: "time_limit";
            /** Format: int64 */
            limit_ms: number;
        } | {
            /** @enum {string} */
            kind: "out_of_memory";
        } | {
            /** @enum {string} */
            kind: "killed";
        } | {
            detail: string;
            /** @enum {string} */
            kind: "not_started";
        } | {
            /** @enum {string} */
            kind: "sandbox_ended";
        };
        ExecList: {
            execs: components["schemas"]["Exec"][];
        };
        /** @enum {string} */
        ExecState: "running" | "ended";
        Existence: {
            exists: boolean;
        };
        Extend: {
            /**
             * Format: double
             * @description Counted from now.
             */
            ttl_seconds: number;
        };
        FileEntry: {
            /**
             * @description Extended attributes of the user's namespace that are text, by their names without `user.`; none where they have more than
             *     3072 bytes. In answers about one file, and in lists.
             */
            attributes?: {
                [key: string]: string;
            };
            /** Format: int32 */
            gid: number;
            kind: components["schemas"]["FileKind"];
            /**
             * Format: int32
             * @description Permission bits.
             */
            mode: number;
            /** Format: int64 */
            modified_at_ms: number;
            path: string;
            /** @description The path's bytes in base64, only where they are not UTF-8. */
            path_base64?: string | null;
            resolved?: components["schemas"]["ResolvedLink"] | null;
            /** Format: int64 */
            size: number;
            /** @description Where a link points. */
            target?: string | null;
            /** Format: int32 */
            uid: number;
        };
        /** @description One line of `GET .../files/watch`. */
        FileEvent: {
            kind: components["schemas"]["FileEventKind"];
            path: string;
        };
        /** @enum {string} */
        FileEventKind: "watching" | "created" | "modified" | "deleted" | "moved_from" | "moved_to" | "attributes" | "overflow" | "alive";
        /** @enum {string} */
        FileKind: "file" | "directory" | "link" | "other";
        FilePage: {
            entries: components["schemas"]["FileEntry"][];
            next_cursor?: string | null;
        };
        /** @description One thing in the code that its sandbox's rules object to. */
        Finding: {
            /**
             * Format: int32
             * @description In characters, from one.
             */
            column: number;
            kind: components["schemas"]["FindingKind"];
            /**
             * Format: int32
             * @description From one.
             */
            line: number;
            /** @description The code in question, or in words what hindered the parser. */
            text: string;
        };
        /** @enum {string} */
        FindingKind: "import_not_allowed" | "subprocess" | "socket" | "eval_exec" | "file_outside_workspace" | "dynamic_import" | "not_parsed" | "not_scanned";
        /** @description The build of a template that comes with Paddock, which the first create that named it began. */
        FirstBuild: {
            /** @description The words of that step. */
            doing: string;
            /** @description Of a build that failed. */
            failure?: string | null;
            /** Format: int64 */
            started_at_ms: number;
            state: components["schemas"]["FirstBuildState"];
            /** @description The step that runs, or that failed, from 1 on; 0 before the first. */
            step: number;
            /** @description All steps; 0 until they are known. */
            steps: number;
        };
        /** @enum {string} */
        FirstBuildState: "building" | "failed";
        Fork: {
            /**
             * Format: int32
             * @description 1 to 100; default 1.
             */
            count?: number | null;
            /**
             * @description True: code contexts go along, with all that they know. By default those that can, unless another token made the source:
             *     its code has rights over forks with its contexts. The others begin anew, and the answer says why. `true`: it is an error
             *     if one cannot. `false`: only files.
             */
            live?: boolean | null;
            /** @description Added to the source's. */
            metadata?: {
                [key: string]: string;
            };
            /**
             * @description True: each fork is made or fails by itself, and `failed` of the answer says why; each takes room that is free at once, and
             *     none waits for it. By default all are made or none.
             */
            partial?: boolean;
            /** @description True: the children get the source's secrets too; by default they have none. */
            secrets?: boolean;
            /** Format: double */
            ttl_seconds?: number | null;
        };
        Forked: {
            /** @description The fate of the source's contexts in each child. */
            contexts?: components["schemas"]["ForkedContext"][];
            /** @description With `partial`: the forks that were not made, by their places. */
            failed?: components["schemas"]["NotForked"][];
            /** @description The state that the children began with. */
            kind?: components["schemas"]["ForkKind"];
            /** @description Commands that ran in the source, and do not in the children. */
            left_behind?: components["schemas"]["LeftBehind"][];
            /** @description Why it is not more than files, where it is not. */
            reason?: string | null;
            sandboxes: components["schemas"]["Sandbox"][];
        };
        /** @description One context of the source, in one child. */
        ForkedContext: {
            /** @description True if it goes on with all that it knew. */
            carried: boolean;
            /** @description Files that it had open and has no more. */
            closed?: string[];
            context: string;
            /** @description Why it does not. */
            reason?: string | null;
            sandbox: string;
            /**
             * Format: int64
             * @description How long the source's interpreter stood still for it, in microseconds.
             */
            stood_still_us?: number | null;
        };
        /**
         * @description The most that a fork begins with.
         * @enum {string}
         */
        ForkKind: "filesystem" | "interpreter" | "memory";
        Health: {
            status: string;
            version: string;
        };
        Hibernate: {
            /**
             * @description Whether its memory is kept, so that it goes on where it stood. By default it is where the backend keeps memory. `true`: it
             *     is an error where the backend does not. `false`: the files alone are kept; one that sleeps with its memory loses it.
             * @default null
             */
            memory?: boolean | null;
            /**
             * Format: double
             * @description Its time to live while it sleeps, where it has one; awake again it has what is left of the present one.
             * @default null
             */
            ttl_seconds?: number | null;
        };
        /** @description A field is absent where the host does not say it. */
        HostLoad: {
            /** Format: int64 */
            memory_available_bytes?: number | null;
            /** Format: int64 */
            memory_bytes?: number | null;
            /**
             * Format: int64
             * @description Below so much available memory load is shed; 0: never.
             */
            memory_keep_free_bytes?: number | null;
            /**
             * Format: int64
             * @description Of all processors together since the host began, so that two answers give the use between them.
             */
            processor_busy_ms?: number | null;
            /** Format: int32 */
            processors: number;
        };
        /** @description Idle: no exec runs, nobody streams, no processor time is used. A request alone does not count. */
        Idle: {
            action: components["schemas"]["IdleAction"];
            /** Format: double */
            seconds: number;
        };
        /** @enum {string} */
        IdleAction: "kill" | "pause" | "hibernate";
        Interrupted: {
            /** @description True if there was code to interrupt. */
            interrupted: boolean;
        };
        Job: {
            best?: components["schemas"]["JobBest"] | null;
            cost: components["schemas"]["JobCost"];
            /** Format: int64 */
            created_at_ms: number;
            /** Format: int64 */
            ended_at_ms?: number | null;
            /** @description `job-` and 16 hexadecimal digits. */
            id: string;
            /**
             * Format: int64
             * @description When it is forgotten, once it has ended.
             */
            kept_until_ms?: number | null;
            name?: string | null;
            /** @description Why it failed or was cancelled, in words. */
            reason?: string | null;
            /** @description As it was sent, without the contents of inputs and without the values of secrets. */
            spec: components["schemas"]["JobSpec"];
            /** Format: int64 */
            started_at_ms?: number | null;
            state: components["schemas"]["JobState"];
            tasks: components["schemas"]["JobCounts"];
            tenant: string;
        };
        JobArgs: unknown[] | {
            [key: string]: unknown;
        };
        JobArray: number | components["schemas"]["ArrayItem"][];
        JobArtifact: {
            /** Format: int64 */
            bytes: number;
            /** @description Where it lay inside; relative to the job's directory where it was below it. */
            path: string;
            sha256: string;
            /** Format: int32 */
            task: number;
        };
        JobArtifacts: {
            artifacts: components["schemas"]["JobArtifact"][];
            /** @description There are more than are shown: ask for one task's. */
            truncated: boolean;
        };
        /** @description One sandbox, and what became of it. */
        JobAttempt: {
            /**
             * Format: int32
             * @description From 1.
             */
            attempt: number;
            /** Format: double */
            cpu_ms?: number | null;
            /** @description The same in words, with what is known besides. */
            detail?: string | null;
            end?: components["schemas"]["AttemptEnd"] | null;
            /** Format: int64 */
            ended_at_ms?: number | null;
            /** Format: int32 */
            exec?: number | null;
            /** Format: int32 */
            exit_code?: number | null;
            /** Format: int64 */
            peak_memory_bytes?: number | null;
            sandbox?: string | null;
            /** Format: int64 */
            started_at_ms: number;
        };
        /** @description The winner. */
        JobBest: {
            /** @description Its changes; at most 10,000 paths. The patch is the artifact `winner.patch` of its task. */
            changes: components["schemas"]["Change"][];
            /**
             * Format: int32
             * @description The candidate's number, from 0.
             */
            index: number;
            /** Format: double */
            score: number;
            /** @description There were more. */
            truncated: boolean;
        };
        JobCommand: string | string[];
        /** @description Of all attempts together. A field is absent where nothing on the host counts it. */
        JobCost: {
            /** Format: int64 */
            attempts: number;
            /** Format: double */
            cpu_ms?: number | null;
            /**
             * Format: int64
             * @description The highest of any attempt.
             */
            peak_memory_bytes?: number | null;
            /**
             * Format: int64
             * @description From the start of each command to its end, summed up.
             */
            wall_ms: number;
        };
        JobCounts: {
            /** Format: int32 */
            cancelled: number;
            /** Format: int32 */
            failed: number;
            /** Format: int32 */
            queued: number;
            /** Format: int32 */
            running: number;
            /** Format: int32 */
            succeeded: number;
            /** Format: int32 */
            total: number;
        };
        /** @description A file that is there before the job runs: `text`, `base64`, or `from`. */
        JobInput: {
            /** @default null */
            base64?: string | null;
            /**
             * @description Only in a job's file: a file or directory beside it, which `paddock job run` sends along.
             * @default null
             */
            from?: string | null;
            /**
             * Format: int32
             * @description Permission bits, default 0o644 (420).
             * @default null
             */
            mode?: number | null;
            /**
             * @description Where it lies inside; relative: below the job's directory.
             * @default
             */
            path?: string;
            /** @default null */
            text?: string | null;
        };
        /** @enum {string} */
        JobOnFailure: "continue" | "stop";
        JobPage: {
            jobs: components["schemas"]["Job"][];
            next_cursor?: string | null;
        };
        /** @description The rights of the job's sandboxes; a field that is left out is as the template has it. */
        JobPolicy: {
            /** @default null */
            allowed_imports?: string[] | null;
            /**
             * @description As of a sandbox.
             * @default null
             */
            become_root?: boolean | null;
            /**
             * @description As of a sandbox.
             * @default null
             */
            host_certs?: boolean | null;
            /** @default null */
            hostname?: string | null;
            /**
             * @description As of a sandbox.
             * @default null
             */
            live_forks?: boolean | null;
            /** @default null */
            network?: components["schemas"]["NetSetting"] | null;
            /**
             * @description HOST[:INSIDE], read-only. Only for the host's owner.
             * @default []
             */
            read?: string[];
            /**
             * @description As of a sandbox.
             * @default null
             */
            root_may_install?: boolean | null;
            /**
             * @description `off`, `warn` or `deny`.
             * @default null
             */
            scan?: string | null;
            /**
             * @description Values that never enter; kept encrypted until the job has ended.
             * @default {}
             */
            secrets?: {
                [key: string]: components["schemas"]["SecretLayer"];
            };
            /** @default [] */
            tmpfs?: string[];
            /**
             * @description HOST[:INSIDE], writable. Only for the host's owner.
             * @default []
             */
            write?: string[];
        };
        /** @description A task that fails runs again, in a new sandbox. */
        JobRetries: {
            /**
             * Format: int32
             * @description After the first attempt; default 0.
             * @default 0
             */
            attempts?: number;
            /**
             * Format: double
             * @description Before the second attempt; each further wait is twice as long.
             * @default 1
             */
            backoff_seconds?: number;
            /**
             * Format: double
             * @default 300
             */
            longest_backoff_seconds?: number;
            /**
             * @description The ends after which it runs again.
             * @default [
             *       "exit",
             *       "timeout",
             *       "out_of_memory",
             *       "lost"
             *     ]
             */
            on?: components["schemas"]["RetryOn"][];
        };
        JobSpec: {
            /** @default null */
            args?: components["schemas"]["JobArgs"] | null;
            /** @default null */
            array?: components["schemas"]["JobArray"] | null;
            /** @default null */
            backend?: string | null;
            /** @default null */
            best_of?: components["schemas"]["BestOf"] | null;
            /**
             * @description Source text, as for `run_code`.
             * @default null
             */
            code?: string | null;
            /** @default null */
            command?: components["schemas"]["JobCommand"] | null;
            /** @default null */
            cwd?: string | null;
            /**
             * @description `{index}` as in `args`. PADDOCK_JOB_ID, PADDOCK_JOB_INDEX, PADDOCK_JOB_COUNT and PADDOCK_JOB_ATTEMPT are there always.
             * @default {}
             */
            env?: {
                [key: string]: string;
            };
            /** @default null */
            image?: string | null;
            /**
             * @description Files that are there before it runs.
             * @default []
             */
            inputs?: components["schemas"]["JobInput"][];
            /**
             * Format: double
             * @description How long it is remembered after its end; default a day.
             * @default null
             */
            keep_seconds?: number | null;
            /**
             * @description Of `code` and `script`; default `python`.
             * @default null
             */
            language?: string | null;
            /**
             * @default {
             *       "cpus": null,
             *       "disk_bytes": null,
             *       "exec_timeout_seconds": null,
             *       "memory_bytes": null,
             *       "open_files": null,
             *       "output_bytes": null,
             *       "pids": null
             *     }
             */
            limits?: components["schemas"]["LimitsRequest"];
            /**
             * @description For people: up to 200 characters.
             * @default null
             */
            name?: string | null;
            /** @default continue */
            on_failure?: components["schemas"]["JobOnFailure"];
            /**
             * @description Files that are kept when it has run: paths or patterns such as `out/*.csv`, relative ones below its directory.
             * @default []
             */
            outputs?: string[];
            /**
             * Format: int32
             * @description How many tasks of this job run at one time; default: as many as the server runs at all.
             * @default null
             */
            parallelism?: number | null;
            /** @default {} */
            policy?: components["schemas"]["JobPolicy"];
            /**
             * Format: int32
             * @description -100 to 100; the highest of a tenant's own jobs goes first.
             * @default 0
             */
            priority?: number;
            /**
             * @description Guarantees without which nothing runs.
             * @default []
             */
            require?: string[];
            /**
             * @default {
             *       "attempts": 0,
             *       "backoff_seconds": 1,
             *       "longest_backoff_seconds": 300,
             *       "on": [
             *         "exit",
             *         "timeout",
             *         "out_of_memory",
             *         "lost"
             *       ]
             *     }
             */
            retries?: components["schemas"]["JobRetries"];
            /**
             * @description Source text with a `main` and annotations, as for `paddock script run`; what it returns is the result.
             * @default null
             */
            script?: string | null;
            /**
             * @description Begin with the files of this snapshot.
             * @default null
             */
            snapshot?: string | null;
            /** @default null */
            template?: string | null;
            /**
             * Format: double
             * @description Of one attempt; default 3600.
             * @default null
             */
            timeout_seconds?: number | null;
            /**
             * @description `agent` (default), `root`, a name of the image, UID or UID:GID.
             * @default null
             */
            user?: string | null;
            /** @default [] */
            volumes?: components["schemas"]["VolumeMount"][];
        };
        /** @enum {string} */
        JobState: "queued" | "running" | "succeeded" | "failed" | "cancelled";
        /** @description One of an array's, or the only one. */
        JobTask: {
            artifacts: components["schemas"]["JobArtifact"][];
            attempts: components["schemas"]["JobAttempt"][];
            /**
             * Format: int32
             * @description Of the last attempt.
             */
            exit_code?: number | null;
            /**
             * Format: int32
             * @description From 0.
             */
            index: number;
            job: string;
            /**
             * Format: int64
             * @description When it is tried again.
             */
            not_before_ms?: number | null;
            reason?: string | null;
            /** @description The result of a script, or the value of the code's last expression. */
            result?: unknown;
            /**
             * Format: double
             * @description Of a candidate: what its verifier said.
             */
            score?: number | null;
            state: components["schemas"]["JobState"];
            stderr: string;
            /** @description The last 4 KiB that the last attempt printed. All that was kept is in the logs, for a day. */
            stdout: string;
        };
        JobTaskPage: {
            /**
             * Format: int32
             * @description The number of the next task; absent on the last page.
             */
            next?: number | null;
            tasks: components["schemas"]["JobTask"][];
        };
        LeftBehind: {
            command: string;
            /** Format: int32 */
            exec: number;
        };
        /** @description The limits that a caller names; the others are as the template or the defaults have it. */
        LimitsRequest: {
            /**
             * Format: double
             * @default null
             */
            cpus?: number | null;
            /**
             * Format: int64
             * @default null
             */
            disk_bytes?: number | null;
            /**
             * Format: double
             * @description Default time limit of one exec.
             * @default null
             */
            exec_timeout_seconds?: number | null;
            /**
             * Format: int64
             * @default null
             */
            memory_bytes?: number | null;
            /**
             * Format: int32
             * @default null
             */
            open_files?: number | null;
            /**
             * Format: int64
             * @description Bytes kept of each output stream of each exec, half from its head and half from its tail.
             * @default null
             */
            output_bytes?: number | null;
            /**
             * Format: int32
             * @default null
             */
            pids?: number | null;
        };
        /** @enum {string} */
        LogLevel: "debug" | "info" | "warn" | "error";
        MakeDirectory: {
            /**
             * Format: int32
             * @description Permission bits, default 0o755 (493).
             */
            mode?: number | null;
            /** @description Make what is missing above it, and be content if it exists. */
            parents?: boolean;
            path: string;
        };
        MergeConflict: {
            path: string;
            reason: string;
        };
        /** @description With conflicts nothing at all was merged. */
        MergeReport: {
            conflicts: components["schemas"]["MergeConflict"][];
            merged: components["schemas"]["Change"][];
            /** @description Left out, with the reason: pipes, sockets and devices. They keep nothing else from being merged. */
            skipped?: components["schemas"]["MergeConflict"][];
        };
        MergeRequest: {
            /** @description The fork whose changes are wanted. */
            from: string;
            /** @description Absolute paths; a directory means everything below it. Empty means all that the fork changed. */
            paths?: string[];
        };
        MinuteOfCreates: {
            /**
             * Format: int64
             * @description The minute's beginning.
             */
            at_ms: number;
            /** Format: int32 */
            created: number;
            /** Format: int32 */
            failed: number;
        };
        /** @description A volume in a sandbox, as it is or was. */
        MountedVolume: {
            mode: components["schemas"]["VolumeMode"];
            name: string;
            on_failure: components["schemas"]["OnFailure"];
            /** @description Its fate at the end, in words. */
            outcome?: string | null;
            path: string;
            /**
             * Format: int64
             * @description The version that it began with, or that was last made of it; absent for one that was empty.
             */
            version?: number | null;
        };
        MoveFile: {
            from: string;
            overwrite?: boolean;
            to: string;
        };
        /** @description As written: text, so that every source takes the same forms and gets the same errors. */
        NetLayer: {
            /**
             * @description `api.example.com`, `*.example.org:443`, `10.1.2.0/24:5432`, `[fd00::]/8:443`, `preset:model-apis`. Without ports: 80
             *     and 443.
             * @default []
             */
            allow?: string[];
            /**
             * @description As `allow`, but only for public addresses: none of these opens loopback, link-local, private or metadata addresses, or
             *     one of the host's own. For rules that somebody else wrote, such as a script's header.
             * @default []
             */
            allow_public?: string[];
            /**
             * @description Bytes in its whole life, such as `1GiB`.
             * @default null
             */
            bytes?: string | null;
            /**
             * @description As `allow`; wins over it. Without ports: all.
             * @default []
             */
            deny?: string[];
            /**
             * @description Of HTTP requests that can be seen; what cannot be seen is refused then.
             * @default []
             */
            methods?: string[];
            /**
             * @description `enforce` (default), `learn-deny` or `learn-allow`.
             * @default null
             */
            mode?: string | null;
            /**
             * @description Bytes per second, such as `10MiB`.
             * @default null
             */
            rate?: string | null;
        };
        /** @description `net` of a policy: a word, or a table of rules. */
        NetSetting: string | components["schemas"]["NetLayer"];
        NetworkDecision: {
            address?: string | null;
            /** @description How to allow what was denied, in one line. */
            advice?: string | null;
            /** Format: int64 */
            at_ms: number;
            /**
             * Format: int64
             * @description How often it happened since it was last told.
             */
            count: number;
            name?: string | null;
            /** Format: int64 */
            number: number;
            /** Format: int32 */
            port?: number | null;
            /** @description In words. */
            reason: string;
            /** Format: int64 */
            received_bytes?: number | null;
            /**
             * Format: int64
             * @description Of a connection that has closed.
             */
            sent_bytes?: number | null;
            /** @description `allowed`, `denied` or `closed`. */
            verdict: string;
            /** @description Which way was tried: `dns`, `connect`, `http`, `tunnel`, `socks`, `udp`, `icmp` or `other`. */
            way: string;
        };
        NetworkView: {
            /**
             * Format: int64
             * @description That are open now.
             */
            connections: number;
            /** @description The last 500 at most; all are in the audit. */
            decisions: components["schemas"]["NetworkDecision"][];
            /**
             * Format: int64
             * @description Number of the last decision, to ask for those after it.
             */
            last: number;
            /** @description The rules that what was tried would have needed, as `allow` takes them. */
            needed: string[];
            /** @description True if more hosts were tried than are kept. */
            needed_more: boolean;
            /** @description `none`, `host`, or `gate` where there are rules. */
            network: string;
            /** Format: int64 */
            received_bytes: number;
            rules?: Record<string, never> | null;
            /** Format: int64 */
            sent_bytes: number;
        };
        /** @description A pool of a node. */
        NodePool: {
            /**
             * Format: int32
             * @description Sandboxes that wait in it.
             */
            ready: number;
            template: string;
            /** @description Absent: it serves every tenant. */
            tenant?: string | null;
        };
        /** @description What a node says of itself, for the placement of sandboxes. */
        NodeReport: {
            /**
             * Format: int64
             * @description The node's clock.
             */
            at_ms: number;
            /** @description Backends whose parts this host has. `paddock doctor` says whether they work. */
            backends: string[];
            /**
             * @description Names of guarantees (`require`) that a sandbox could have, for each of those backends. Not all of them can be had together. Absent:
             *     an older node, which does not tell.
             */
            guarantees?: {
                [key: string]: string[];
            } | null;
            /** @description From `--label`. */
            labels: {
                [key: string]: string;
            };
            /**
             * Format: int64
             * @description The most live sandboxes: as many as there are while the host has no memory left for more. Absent: there is no limit.
             */
            limit?: number | null;
            /** @description Sandboxes by state, of all tenants. */
            live: components["schemas"]["SandboxCounts"];
            /** Format: int64 */
            memory_available_bytes?: number | null;
            /**
             * Format: int64
             * @description Of the host, or of the server's control group where that has less.
             */
            memory_bytes?: number | null;
            /** @description For people: `--node-name`, else the name of the host. */
            name: string;
            /**
             * Format: int32
             * @description 0 to 4095. Ids of this node begin with it, as three hexadecimal digits. Absent: the server was started without `--node`.
             */
            node?: number | null;
            pools: components["schemas"]["NodePool"][];
            /** Format: int32 */
            processors: number;
            /**
             * Format: int32
             * @description The version of the protocol between gateway and node.
             */
            protocol: number;
            /** Format: int64 */
            started_at_ms: number;
            state: components["schemas"]["NodeState"];
            /** @description Names of templates that it has. */
            templates: string[];
            /** @description Live sandboxes of each tenant that has any. */
            tenants: {
                [key: string]: number;
            };
            /** @description Of Paddock. */
            version: string;
        };
        /** @enum {string} */
        NodeState: "ready" | "cordoned" | "draining";
        /** @description One of several forks that was not made, while others may have been. */
        NotForked: {
            /** @description As in an error. */
            code: string;
            hint?: string | null;
            message: string;
            /**
             * Format: int32
             * @description Its place among all that were asked for, from 0. `sandboxes` has those of the other places, in their order.
             */
            place: number;
            /**
             * Format: int32
             * @description Time after which there may be room.
             */
            retry_after_seconds?: number | null;
            /**
             * Format: int32
             * @description The status that a request for this one alone would have been answered with.
             */
            status: number;
        };
        /** @enum {string} */
        OnFailure: "discard" | "keep" | "commit";
        /** @description One line of `GET .../output`, in the order in which things happened. */
        OutputEvent: {
            /** @description Base64. */
            data: string;
            /**
             * Format: int64
             * @description Of the first byte, in its stream.
             */
            offset: number;
            stream: components["schemas"]["StreamName"];
            /** @enum {string} */
            type: "output";
        } | {
            /** Format: int64 */
            bytes: number;
            /** Format: int64 */
            offset: number;
            stream: components["schemas"]["StreamName"];
            /** @enum {string} */
            type: "gap";
        } | {
            result: components["schemas"]["CodeResult"];
            /** @enum {string} */
            type: "result";
        } | {
            error: components["schemas"]["CodeError"];
            /** @enum {string} */
            type: "error";
        } | {
            exec: components["schemas"]["Exec"];
            /** @enum {string} */
            type: "ended";
        } | {
            /** @enum {string} */
            type: "alive";
        };
        Pause: {
            /**
             * @description The next request that needs its processes resumes it, as after a pause for idleness.
             * @default false
             */
            auto_resume?: boolean;
            /**
             * Format: double
             * @description Its time to live while it is paused, where it has one; resumed it has what is left of the present one.
             * @default null
             */
            ttl_seconds?: number | null;
        };
        Pool: {
            /** @description The last error, while it lasts. */
            error?: string | null;
            /**
             * Format: int64
             * @description Creates that found one ready, and those that did not.
             */
            hits: number;
            /**
             * Format: int32
             * @description Sandboxes that creates got from it, ready or made at once, and that have not ended.
             */
            in_use?: number;
            made_by?: components["schemas"]["PoolMaker"];
            /**
             * Format: int32
             * @description Sandboxes that are just being made.
             */
            making: number;
            /** Format: int32 */
            max: number;
            /** Format: int32 */
            min: number;
            /** Format: int64 */
            misses: number;
            /** @description Modules that the interpreter has imported before it is forked. */
            preload: string[];
            /**
             * Format: int32
             * @description Sandboxes that wait for somebody.
             */
            ready: number;
            template: string;
            /**
             * Format: int32
             * @description How many there should be, by what was asked for in the last seconds.
             */
            wanted: number;
            zygote: components["schemas"]["ZygoteState"];
        };
        PoolList: {
            pools: components["schemas"]["Pool"][];
        };
        /**
         * @description Why there is a pool.
         * @enum {string}
         */
        PoolMaker: "owner" | "job" | "demand";
        /** @description How many sandboxes of a template are kept ready. */
        PoolSize: {
            /**
             * Format: int32
             * @description At most so many, however many were asked for in the last seconds.
             */
            max: number;
            /**
             * Format: int32
             * @description At least so many, whatever the demand.
             */
            min: number;
        };
        PortSettings: {
            /** @default null */
            public?: components["schemas"]["PublicPorts"] | null;
            /**
             * @description The `Host` of requests that reach a program inside: NAME, NAME:NUMBER or NAME:${PORT}, where `${PORT}` is the number of the port.
             *     Default: `localhost:${PORT}`.
             * @default null
             */
            request_host?: string | null;
        };
        ProcessLoad: {
            /**
             * Format: int64
             * @description Since it began.
             */
            cpu_ms?: number | null;
            /** Format: int64 */
            memory_bytes?: number | null;
        };
        /** @description `all`, or numbers. */
        PublicPorts: string | number[];
        /** @description The most that a tenant may have at one time; absent is unlimited. */
        Quota: {
            /**
             * Format: double
             * @description Sum of the cpu limits of live sandboxes.
             * @default null
             */
            cpus?: number | null;
            /**
             * Format: int32
             * @default null
             */
            creates_per_minute?: number | null;
            /**
             * Format: int32
             * @default null
             */
            live_sandboxes?: number | null;
            /**
             * Format: int64
             * @description Sum of the memory limits of live sandboxes.
             * @default null
             */
            memory_bytes?: number | null;
            /**
             * Format: int64
             * @description The most that all its volumes may hold, each in its current version.
             * @default null
             */
            volume_bytes?: number | null;
            /**
             * Format: int32
             * @default null
             */
            volumes?: number | null;
        };
        RegistryLogin: {
            password: string;
            username: string;
        };
        /** @description The file at the end of a link, through any number of links. */
        ResolvedLink: {
            kind: components["schemas"]["FileKind"];
            /**
             * Format: int32
             * @description Permission bits.
             */
            mode: number;
            /** @description Absolute, and without links. */
            path: string;
        };
        /** @description Where a path leads, through all links. Parts that are missing stay as they are written. */
        ResolvedPath: {
            entry?: components["schemas"]["FileEntry"] | null;
            /** @description Absolute, without links, `.` and `..`. */
            path: string;
            /** @description The path's bytes in base64, only where they are not UTF-8. */
            path_base64?: string | null;
        };
        Resource: {
            name: string;
            secrets?: {
                [key: string]: string[];
            };
            type: string;
            /** Format: int64 */
            updated_at_ms: number;
            /** @description Absent in lists, and for a read-only token. Text that is bound to hosts is replaced by words that say so. */
            value?: unknown;
        };
        ResourceList: {
            resources: components["schemas"]["Resource"][];
        };
        RestoreVolume: {
            /** Format: int64 */
            version: number;
        };
        /** @description Of a resume and of a wake. */
        Resume: {
            /**
             * Format: double
             * @description Its time to live from then on. It runs already: it keeps the time that it has.
             * @default null
             */
            ttl_seconds?: number | null;
        };
        /** @enum {string} */
        RetryOn: "exit" | "timeout" | "out_of_memory" | "lost";
        /** @enum {string} */
        Role: "admin" | "user" | "read-only";
        RunCode: {
            /** @description Answer at once instead of when the code has ended. */
            background?: boolean;
            code: string;
            /** @description The context to run in; the language's default one without it, made at its first use. */
            context?: string | null;
            cwd?: string | null;
            env?: {
                [key: string]: string;
            };
            /**
             * @description `python` (default), `javascript`, `typescript`, `bash`, `sh` (which remembers nothing), or one for which the
             *     template has a runner. With `context` it may be left out.
             */
            language?: string | null;
            /** @description All of its standard input, for this call. Without it the code reads nothing. */
            stdin?: string | null;
            /** @description Answer with lines of JSON as things happen, as `GET .../output` does. */
            stream?: boolean;
            /** Format: double */
            timeout_seconds?: number | null;
        };
        Sandbox: {
            /** Format: int64 */
            created_at_ms: number;
            end?: components["schemas"]["End"] | null;
            /**
             * Format: int64
             * @description When its time to live ends; none for a persistent sandbox without one.
             */
            expires_at_ms?: number | null;
            guarantees: Record<string, never>;
            /** @description Its clients believe the certificates that the server's host believes. */
            host_certs?: boolean;
            id: string;
            idle?: components["schemas"]["Idle"] | null;
            image?: string | null;
            /** @description The user that its image names for its processes. A sandbox of an image has its own user all the same. */
            image_user?: string | null;
            limits: Record<string, never>;
            metadata: {
                [key: string]: string;
            };
            name?: string | null;
            /**
             * Format: int32
             * @description The node that it is on, where the server has a number (`serve --node`); its id begins with it.
             */
            node?: number | null;
            /** @description The sandbox that it was forked from. */
            parent?: string | null;
            persistent: boolean;
            /** @description Its ports, as they were asked for. `public` is what is weaker than a token for every request. */
            ports?: components["schemas"]["PortSettings"];
            /**
             * Format: int32
             * @description Execs that run now.
             */
            running_execs: number;
            /** @description The rules of the scan of code before it runs. */
            scan?: components["schemas"]["ScanRules"];
            /** @description Secrets, by their variable, and the hosts that they are bound to. */
            secrets?: {
                [key: string]: string[];
            };
            /** @description The snapshot that it began with. */
            snapshot?: string | null;
            state: components["schemas"]["SandboxState"];
            template?: string | null;
            tenant: string;
            /** @description The action at that time. */
            ttl_action?: components["schemas"]["TtlAction"];
            under_pressure?: components["schemas"]["UnderPressure"] | null;
            volumes?: components["schemas"]["MountedVolume"][];
            workspace?: string | null;
        };
        SandboxCounts: {
            /** Format: int64 */
            creating: number;
            /** Format: int64 */
            hibernated: number;
            /** Format: int64 */
            paused: number;
            /** Format: int64 */
            running: number;
        };
        /** @description The use of the host by a sandbox over the last minutes. */
        SandboxMetrics: {
            /**
             * Format: int64
             * @description Between two samples of a sandbox at work, where not more than a thousand are. One that nobody uses has none.
             */
            every_seconds: number;
            /** @description The oldest first; 240 at most. A server that starts anew has none of before. */
            samples: components["schemas"]["SandboxSample"][];
        };
        SandboxPage: {
            /** @description Hand it back as `cursor` for what follows; absent on the last page. */
            next_cursor?: string | null;
            sandboxes: components["schemas"]["Sandbox"][];
        };
        SandboxSample: {
            /** Format: int64 */
            at_ms: number;
            /**
             * Format: int64
             * @description The part of it that is the kernel's cache of files, which it takes back when memory is short.
             */
            cache_bytes: number;
            /**
             * Format: double
             * @description Since the sample before, of one processor: two that are busy are 200.
             */
            cpu_percent: number;
            /** Format: int64 */
            disk_bytes: number;
            /** Format: int64 */
            memory_bytes: number;
        };
        /** @enum {string} */
        SandboxState: "creating" | "running" | "paused" | "hibernated" | "ended";
        /** @description The resources that a sandbox uses or used. A field is absent where nothing on the host counts it. */
        SandboxUsage: {
            /** Format: double */
            cpu_ms?: number | null;
            /** Format: int64 */
            disk_bytes?: number | null;
            /** Format: int64 */
            memory_bytes?: number | null;
            /** Format: int64 */
            peak_memory_bytes?: number | null;
            /** Format: int64 */
            processes?: number | null;
        };
        /**
         * @description The later one is the stricter.
         * @enum {string}
         */
        ScanMode: "off" | "warn" | "deny";
        /** @description The rules for the code of one sandbox, for as long as it lives. */
        ScanRules: {
            /**
             * @description Absent: no rule about imports. Empty: nothing may be imported.
             * @default null
             */
            allowed_imports?: string[] | null;
            /** @default off */
            mode?: components["schemas"]["ScanMode"];
        };
        /** @enum {string} */
        ScoreFrom: "exit" | "json";
        Secret: {
            /** Format: int64 */
            created_at_ms: number;
            hosts: string[];
            id: string;
            metadata: {
                [key: string]: string;
            };
            name: string;
            /** Format: int64 */
            updated_at_ms: number;
            /**
             * Format: int64
             * @description 1 for the first value; each new value is one more. Only the last one is kept.
             */
            version: number;
        };
        /** @description The variable of its name holds a placeholder inside; the gate puts the value into requests to its hosts. */
        SecretLayer: {
            /**
             * @description Where the value is read: `env:NAME` or `file:/PATH`, to a server only for the host's owner, for it is the server's
             *     environment and disk; or `resource:NAME[.FIELD]`, of the tenant's resources, for hosts that it is bound to.
             * @default null
             */
            from?: string | null;
            /**
             * @description The only header that the value is put into; absent: the usual ones for credentials, such as `Authorization` and
             *     `X-API-Key`, and those of `headers`.
             * @default null
             */
            header?: string | null;
            /**
             * @description Headers besides the usual ones that the value is put into. A host that repeats one of them tells the value.
             * @default []
             */
            headers?: string[];
            /**
             * @description `api.example.com`, `*.example.org:8443`. Without ports: 443. They are allowed by this, unless `deny` names them.
             * @default []
             */
            hosts?: string[];
            /**
             * @description Headers that the gate sets itself in every request to the hosts, over what the program sent, such as `Authorization` to
             *     `Bearer {}`, where `{}` stands for the value. The program knows nothing of it: there is no variable inside.
             * @default {}
             */
            inject?: {
                [key: string]: string;
            };
            /**
             * @description The value itself; or `from`.
             * @default null
             */
            value?: string | null;
        };
        SecretPage: {
            next_cursor?: string | null;
            /** @description The newest first. */
            secrets: components["schemas"]["Secret"][];
        };
        /** @description The server and its host now. */
        ServerLoad: {
            /** @description Where it listens besides its socket, as URLs. */
            addresses: string[];
            /** Format: int64 */
            at_ms: number;
            creates: components["schemas"]["CreateNumbers"];
            /**
             * Format: int64
             * @description Commands that were started.
             */
            execs_total: number;
            host: components["schemas"]["HostLoad"];
            /** @description Of all tenants. */
            sandboxes: components["schemas"]["SandboxCounts"];
            /** @description Of the server's own process. */
            server: components["schemas"]["ProcessLoad"];
            /**
             * Format: int64
             * @description When the server began.
             */
            started_at_ms: number;
        };
        /** @description The fields that name processes and places of the host are the owner's only. */
        ServerStatus: {
            /** @description Where it listens besides its socket, as URLs; the owner only. */
            addresses?: string[];
            /** @description Pages behind a port are at `{port}-{id}.` and this name; absent: the server was started without `--domain`. */
            ports_domain?: string | null;
            /** @description Why not. */
            problem?: string | null;
            /**
             * Format: int32
             * @description Its process on the host; the owner only.
             */
            process?: number | null;
            /** @description True if a sandbox could be created now, as /readyz says. */
            ready: boolean;
            sandboxes?: components["schemas"]["SandboxCounts"] | null;
            /**
             * Format: int64
             * @description The owner only.
             */
            started_at_ms?: number | null;
            /** @description The owner only. */
            state_dir?: string | null;
            version: string;
        };
        SetResource: {
            /**
             * @description By the field (`apiKey`, `auth.token`; empty for the value itself): the hosts that this text is bound to. It never
             *     enters a sandbox, and no call shows it again: a placeholder stands for it inside, and the gate puts it into requests to
             *     these hosts.
             */
            secrets?: {
                [key: string]: string[];
            };
            /** @description Its type, a word of its owner's: `anthropic`, `postgresql`. Default: `variable` for text, else `object`. */
            type?: string | null;
            /** @description Any JSON; encrypted at rest. */
            value: unknown;
        };
        SetTag: {
            /** @description The id of a build of the same template that is ready. */
            build: string;
        };
        ShareVolume: {
            mode?: components["schemas"]["VolumeMode"] | null;
            tenant: string;
        };
        SignalExec: {
            /** @description A name (`TERM`, `SIGINT`) or a number as text. */
            signal: string;
        };
        /** @description A right to one port of one sandbox. */
        SignedPort: {
            /** Format: int64 */
            expires_at_ms: number;
            /** @description The name that the port has of its own, where the server was started with `--domain`. It takes the right as `url` does. */
            host?: string | null;
            /** @description The right alone: for the header `Authorization: Bearer`, or for the parameter or the cookie `paddock_token`. */
            token: string;
            /** @description The port with the right, relative to the server's own address; needs no other token. */
            url: string;
        };
        SignedUrl: {
            /** Format: int64 */
            expires_at_ms: number;
            /** @description Relative to the server's own address; needs no token. */
            url: string;
        };
        SignIn: {
            code: string;
        };
        SignInCode: {
            /** @description Good for one exchange, and secret until then. */
            code: string;
            /** Format: int64 */
            expires_at_ms: number;
        };
        SignPath: {
            /** Format: double */
            expires_seconds: number;
            /** @description `read` or `write`. */
            operation: string;
            path: string;
        };
        SignPort: {
            /** Format: double */
            expires_seconds: number;
            /** Format: int32 */
            port: number;
        };
        /** @enum {string} */
        Since: "start" | "snapshot" | "parent";
        Snapshot: {
            /** @description Of one that keeps memory: the backend that a sandbox needs to go on with it. */
            backend?: string | null;
            /** @description Its sandbox had `become_root`; likewise. */
            become_root?: boolean;
            /** Format: int64 */
            created_at_ms: number;
            /** @description Where commands start. */
            cwd?: string | null;
            /** @description `sn-` and 16 hexadecimal digits. */
            id: string;
            /** @description The image that its files were written over. */
            image?: string | null;
            /** @description Its content: `filesystem`; or `interpreter`, which is that and code contexts; or `memory` and that. */
            kind: string;
            name?: string | null;
            /** @description Its sandbox had `root_may_install`. What begins with the snapshot has it where the request asks for it and its caller may. */
            root_may_install?: boolean;
            /** @description The sandbox that it was taken of. */
            sandbox: string;
            /** Format: int64 */
            size_bytes?: number | null;
            /**
             * @description The template of its sandbox. What begins with the snapshot has the settings that this sandbox had, unless the request names a
             *     template or other settings.
             */
            template?: string | null;
            tenant: string;
            /** @description The user of commands; absent: `agent`. */
            user?: string | null;
        };
        SnapshotPage: {
            next_cursor?: string | null;
            snapshots: components["schemas"]["Snapshot"][];
        };
        StartExec: {
            /** @default null */
            argv?: string[] | null;
            /**
             * @description Answer at once instead of when the command has ended.
             * @default false
             */
            background?: boolean;
            /**
             * @description A command line for `/bin/sh -c`. Either this or `argv`.
             * @default null
             */
            command?: string | null;
            /** @default null */
            cwd?: string | null;
            /**
             * @description Added to the sandbox's.
             * @default {}
             */
            env?: {
                [key: string]: string;
            };
            /**
             * @description Keep standard input open for `POST .../stdin`.
             * @default false
             */
            open_stdin?: boolean;
            /**
             * @description All of its standard input. Without it, and without `open_stdin`, the command reads nothing.
             * @default null
             */
            stdin?: string | null;
            /** @default null */
            terminal?: components["schemas"]["TerminalSize"] | null;
            /**
             * Format: double
             * @default null
             */
            timeout_seconds?: number | null;
            /** @default null */
            user?: string | null;
        };
        StdinReceived: {
            /**
             * Format: int64
             * @description All bytes of standard input so far; hand it back as `offset` with the next ones.
             */
            offset: number;
        };
        /** @enum {string} */
        StreamName: "stdout" | "stderr";
        Template: {
            first_build?: components["schemas"]["FirstBuild"] | null;
            /** @description Of a template that the tenant built through the server; others are those of the owner of the host. */
            id?: string | null;
            name: string;
            /** @description The builds of its tags. */
            tags?: components["schemas"]["TemplateTag"][];
        };
        TemplateBuild: {
            /** Format: int64 */
            created_at_ms: number;
            failure?: components["schemas"]["BuildFailure"] | null;
            /** Format: int64 */
            finished_at_ms?: number | null;
            /** @description A UUID. */
            id: string;
            made_by?: components["schemas"]["BuildMaker"];
            name: string;
            /**
             * Format: int64
             * @description Of the finished image.
             */
            size_bytes?: number | null;
            state: components["schemas"]["BuildState"];
            /** @description The tags that it gets, or got, when it was done. */
            tags: string[];
            /** @description The id of the template: `tp-` and 16 hexadecimal digits. Of a build of the command line: its name. */
            template: string;
        };
        /** @description Builds, the newest first. */
        TemplateBuildPage: {
            builds: components["schemas"]["TemplateBuild"][];
            /** @description For the next page; absent on the last. */
            next_cursor?: string | null;
        };
        TemplateFiles: {
            /** Format: int64 */
            bytes: number;
            hash: string;
        };
        TemplateList: {
            templates: components["schemas"]["Template"][];
        };
        TemplateTag: {
            build: string;
            /** Format: int64 */
            created_at_ms: number;
            tag: string;
        };
        Tenant: {
            name: string;
            quota: components["schemas"]["Quota"];
            usage: components["schemas"]["TenantUsage"];
        };
        TenantList: {
            tenants: components["schemas"]["Tenant"][];
        };
        TenantUsage: {
            /** Format: double */
            cpus: number;
            /** Format: int32 */
            live_sandboxes: number;
            /** Format: int64 */
            memory_bytes: number;
            /**
             * Format: int32
             * @description Creates that wait for room.
             */
            waiting: number;
        };
        TerminalSize: {
            /** Format: int32 */
            columns: number;
            /** Format: int32 */
            rows: number;
        };
        Token: {
            /** Format: int64 */
            created_at_ms: number;
            /**
             * Format: int64
             * @description When it ends by itself.
             */
            expires_at_ms?: number | null;
            /** @description `tk-` and 16 hexadecimal digits; not secret. */
            id: string;
            label?: string | null;
            role: components["schemas"]["Role"];
            tenant: string;
        };
        TokenList: {
            tokens: components["schemas"]["Token"][];
        };
        /**
         * @description The fate of a sandbox whose time to live is over.
         * @enum {string}
         */
        TtlAction: "kill" | "pause" | "hibernate";
        /**
         * @description The fate of an idle sandbox while the host is short of memory.
         * @enum {string}
         */
        UnderPressure: "hibernate" | "keep";
        UpdateSandbox: {
            /**
             * @description As `image`.
             * @default null
             */
            backend?: string | null;
            /**
             * @description Of commands from now on.
             * @default null
             */
            cwd?: string | null;
            /**
             * @description Of commands from now on: replaces all variables that the creator gave.
             * @default null
             */
            env?: {
                [key: string]: string;
            } | null;
            /**
             * Format: double
             * @description Default time limit of commands from now on.
             * @default null
             */
            exec_timeout_seconds?: number | null;
            /**
             * @description As `image`.
             * @default null
             */
            hostname?: string | null;
            /** @default null */
            idle?: components["schemas"]["Idle"] | null;
            /**
             * @description Cannot be changed while a sandbox lives; named here so that it is refused with what to do instead.
             * @default null
             */
            image?: string | null;
            /** @default null */
            limits?: components["schemas"]["LimitsRequest"] | null;
            /**
             * @description Replaces all metadata.
             * @default null
             */
            metadata?: {
                [key: string]: string;
            } | null;
            /** @default null */
            network?: components["schemas"]["NetSetting"] | null;
            /**
             * Format: int64
             * @description Bytes kept of each output stream of commands from now on.
             * @default null
             */
            output_bytes?: number | null;
            /** @default null */
            persistent?: boolean | null;
            /** @default null */
            ports?: components["schemas"]["PortSettings"] | null;
            /**
             * @description By name: a secret with `inject` that is added, or takes the place of another; null removes one. Others stay. They hold
             *     for the next request, on open connections too. Beside `network`, because a secret opens its hosts.
             * @default null
             */
            secrets?: {
                [key: string]: components["schemas"]["SecretLayer"];
            } | null;
            /**
             * @description As `image`.
             * @default null
             */
            template?: string | null;
            /** @default null */
            under_pressure?: components["schemas"]["UnderPressure"] | null;
            /**
             * @description Of commands from now on: `agent`, `root`, a name of the image, UID or UID:GID.
             * @default null
             */
            user?: string | null;
            /**
             * @description As `image`.
             * @default null
             */
            workspace?: string | null;
        };
        /** @description A new value, as the next version. */
        UpdateSecret: {
            /** @description Absent: as before. */
            hosts?: string[] | null;
            /** @description Absent: as before. */
            metadata?: {
                [key: string]: string;
            } | null;
            value: string;
        };
        /** @description What changes of a token. */
        UpdateToken: {
            role: components["schemas"]["Role"];
        };
        /** @description Runs after a candidate that did not fail, in its sandbox. */
        Verifier: {
            command: components["schemas"]["JobCommand"];
            score?: components["schemas"]["ScoreFrom"];
            /**
             * Format: double
             * @description Default 600.
             */
            timeout_seconds?: number | null;
        };
        VerifyAttack: {
            /** @description Why, of one that was not held or does not apply. */
            detail?: string | null;
            /** @description Its first letter is its group. */
            id: string;
            title: string;
            verdict: components["schemas"]["VerifyVerdict"];
        };
        /** @description A backend that the host does not have for this engine. */
        VerifyLack: {
            engine: string;
            reason: string;
        };
        /** @description One run of `paddock verify`, as far as it was about one backend. */
        VerifyResult: {
            /**
             * Format: int64
             * @description When it ended.
             */
            at_ms: number;
            backend: string;
            /** @description The letters of the groups, and the subject of each. */
            groups: {
                [key: string]: string;
            };
            /** @description True if it ran, every attack that applies was held, and nothing was left behind. */
            held: boolean;
            /** @description The kernel of the host, as in `6.18.5`. */
            kernel?: string | null;
            /** @description The remains of the whole run on the host. */
            left_behind?: string[];
            /** @description Why it was not tried, by engine. */
            not_run?: components["schemas"]["VerifyLack"][];
            /** @description The groups, lines or attacks that were asked for; empty: all. */
            only?: string[];
            /** @description By engine and user inside; empty where the host does not have the backend. */
            rows: components["schemas"]["VerifyRow"][];
            /** Format: double */
            seconds: number;
            /** @description Of the Paddock that was verified. */
            version: string;
        };
        VerifyResults: {
            /** @description By backend: its last complete run, and behind it a later one that tried some groups only. */
            results: components["schemas"]["VerifyResult"][];
        };
        VerifyRow: {
            attacks: components["schemas"]["VerifyAttack"][];
            /** @description `root` or `rootless`: the user that Paddock ran as. */
            engine: string;
            /** @description The user inside. */
            user: string;
        };
        /** @enum {string} */
        VerifyVerdict: "held" | "failed" | "not_applicable";
        Volume: {
            /** Format: int64 */
            bytes: number;
            /** Format: int64 */
            created_at_ms: number;
            encrypted: boolean;
            /**
             * Format: int64
             * @description Of that version.
             */
            files: number;
            /** @description No other volume of the same name had it or will have it. */
            id: string;
            name: string;
            /** @description Tenants that have it too, and how. */
            shared?: {
                [key: string]: components["schemas"]["VolumeMode"];
            };
            /**
             * Format: int64
             * @description Size of all its versions in the store.
             */
            stored_bytes: number;
            tenant: string;
            /**
             * Format: int64
             * @description The version that a sandbox gets; absent while it is empty.
             */
            version?: number | null;
            /**
             * Format: int64
             * @description Versions that are kept.
             */
            versions: number;
            /** @description The sandbox that writes to it now. */
            writer?: string | null;
            /** Format: int64 */
            writer_until_ms?: number | null;
        };
        VolumeFile: {
            /** @description `file`, `directory` or `symlink`. */
            kind: string;
            /** Format: int32 */
            mode: number;
            /** Format: int64 */
            modified_at_ms: number;
            path: string;
            /** Format: int64 */
            size: number;
            target?: string | null;
        };
        VolumeFiles: {
            files: components["schemas"]["VolumeFile"][];
            /** @description There are more than are shown; ask for a path below. */
            truncated: boolean;
        };
        VolumeHistory: {
            /** @description The newest first. */
            versions: components["schemas"]["VolumeVersion"][];
        };
        VolumeList: {
            volumes: components["schemas"]["Volume"][];
        };
        /** @enum {string} */
        VolumeMode: "ro" | "rw";
        /** @description A volume in a sandbox. */
        VolumeMount: {
            /**
             * Format: double
             * @description Commit so often while it runs; absent: only at its end.
             */
            checkpoint_seconds?: number | null;
            mode?: components["schemas"]["VolumeMode"];
            /** @description A volume of one's own, or TENANT/NAME of one that was shared. One of one's own that is not there is made. */
            name: string;
            /** @description The fate of the changes when the sandbox fails: out of memory, over a limit, its guest or host lost. */
            on_failure?: components["schemas"]["OnFailure"];
            /** @description Where it stands inside: below /data, /home, /mnt, /opt, /tmp or /workspace. Relative: below /workspace. */
            path: string;
            /**
             * Format: int64
             * @description A version that is not the current one; only with `ro`.
             */
            version?: number | null;
        };
        VolumeVersion: {
            /** Format: int64 */
            at_ms: number;
            by: string;
            /** Format: int64 */
            bytes: number;
            current: boolean;
            /** Format: int64 */
            files: number;
            /**
             * Format: int64
             * @description The version that it was made from.
             */
            from?: number | null;
            /** @description `commit`, `checkpoint`, `kept` (after a failure) or `restore`. */
            kind: string;
            /**
             * Format: int64
             * @description Size that it added to the store.
             */
            stored_bytes: number;
            /** Format: int64 */
            version: number;
        };
        WhoAmI: {
            /** @description The owner of the host, by the unix socket. */
            owner: boolean;
            role: components["schemas"]["Role"];
            tenant: string;
        };
        /**
         * @description The interpreter that is forked into the sandboxes of a pool.
         * @enum {string}
         */
        ZygoteState: "starting" | "ready" | "unavailable";
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    reference: {
        parameters: {
        };
        responses: {
            200: {
                content: {
                    "text/html": string;
                };
            };
        };
    };
    alive: {
        parameters: {
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["Health"];
                };
            };
        };
    };
    read_metrics: {
        parameters: {
        };
        responses: {
            200: {
                content: {
                    "application/openmetrics-text": string;
                };
            };
        };
    };
    openapi_document: {
        parameters: {
        };
        responses: {
            200: {
                content: {
                    "application/json": Record<string, never>;
                };
            };
        };
    };
    ready: {
        parameters: {
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["Health"];
                };
            };
        };
    };
    follow_events: {
        parameters: {
            query?: {
                follow?: boolean;
            };
        };
        responses: {
            200: {
                content: {
                    "application/x-ndjson": components["schemas"]["Event"];
                };
            };
        };
    };
    list_jobs: {
        parameters: {
            query?: {
                cursor?: string;
                limit?: number;
                state?: components["schemas"]["JobState"];
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["JobPage"];
                };
            };
        };
    };
    submit_job: {
        parameters: {
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["JobSpec"];
            };
        };
        responses: {
            201: {
                content: {
                    "application/json": components["schemas"]["Job"];
                };
            };
        };
    };
    get_job: {
        parameters: {
            query?: {
                wait_seconds?: number;
            };
            path: {
                job: string;
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["Job"];
                };
            };
        };
    };
    remove_job: {
        parameters: {
            path: {
                job: string;
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["Job"];
                };
            };
        };
    };
    list_job_artifacts: {
        parameters: {
            query?: {
                task?: number;
            };
            path: {
                job: string;
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["JobArtifacts"];
                };
            };
        };
    };
    read_job_artifact: {
        parameters: {
            query: {
                path: string;
                task?: number;
            };
            path: {
                job: string;
            };
        };
        responses: {
            200: {
                content: {
                    "application/octet-stream": number[];
                };
            };
        };
    };
    cancel_job: {
        parameters: {
            path: {
                job: string;
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["Job"];
                };
            };
        };
    };
    job_logs: {
        parameters: {
            query?: {
                attempt?: number;
                follow?: boolean;
                task?: number;
            };
            path: {
                job: string;
            };
        };
        responses: {
            200: {
                content: {
                    "application/x-ndjson": components["schemas"]["OutputEvent"];
                };
            };
        };
    };
    list_job_tasks: {
        parameters: {
            query?: {
                from?: number;
                limit?: number;
                state?: components["schemas"]["JobState"];
            };
            path: {
                job: string;
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["JobTaskPage"];
                };
            };
        };
    };
    get_job_task: {
        parameters: {
            path: {
                index: number;
                job: string;
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["JobTask"];
                };
            };
        };
    };
    node_report: {
        parameters: {
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["NodeReport"];
                };
            };
        };
    };
    cordon_node: {
        parameters: {
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["NodeReport"];
                };
            };
        };
    };
    uncordon_node: {
        parameters: {
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["NodeReport"];
                };
            };
        };
    };
    list_pools: {
        parameters: {
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["PoolList"];
                };
            };
        };
    };
    get_pool: {
        parameters: {
            path: {
                template: string;
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["Pool"];
                };
            };
        };
    };
    set_pool: {
        parameters: {
            path: {
                template: string;
            };
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["PoolSize"];
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["Pool"];
                };
            };
        };
    };
    delete_pool: {
        parameters: {
            path: {
                template: string;
            };
        };
        responses: {
            204: {
            };
        };
    };
    list_resources: {
        parameters: {
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["ResourceList"];
                };
            };
        };
    };
    get_resource: {
        parameters: {
            path: {
                resource: string;
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["Resource"];
                };
            };
        };
    };
    set_resource: {
        parameters: {
            path: {
                resource: string;
            };
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SetResource"];
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["Resource"];
                };
            };
        };
    };
    remove_resource: {
        parameters: {
            path: {
                resource: string;
            };
        };
        responses: {
            204: {
            };
        };
    };
    list_sandboxes: {
        parameters: {
            query?: {
                created_after_ms?: number;
                cursor?: string;
                limit?: number;
                metadata?: string[];
                name?: string;
                order?: "desc" | "asc";
                state?: components["schemas"]["SandboxState"][];
                template?: string;
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["SandboxPage"];
                };
            };
        };
    };
    create_sandbox: {
        parameters: {
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["CreateSandbox"] | null;
            };
        };
        responses: {
            201: {
                content: {
                    "application/json": components["schemas"]["Sandbox"];
                };
            };
        };
    };
    get_sandbox: {
        parameters: {
            path: {
                id: string;
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["Sandbox"];
                };
            };
        };
    };
    kill_sandbox: {
        parameters: {
            query?: {
                failed?: boolean;
            };
            path: {
                id: string;
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["Sandbox"];
                };
            };
        };
    };
    update_sandbox: {
        parameters: {
            path: {
                id: string;
            };
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["UpdateSandbox"];
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["Sandbox"];
                };
            };
        };
    };
    sandbox_audit: {
        parameters: {
            path: {
                id: string;
            };
        };
        responses: {
            200: {
                content: {
                    "application/x-ndjson": Record<string, never>;
                };
            };
            206: {
                content: {
                    "application/x-ndjson": Record<string, never>;
                };
            };
        };
    };
    sandbox_audit_outputs: {
        parameters: {
            query?: {
                exec?: number;
            };
            path: {
                id: string;
            };
        };
        responses: {
            200: {
                content: {
                    "application/x-ndjson": components["schemas"]["AuditOutput"];
                };
            };
        };
    };
    list_changes: {
        parameters: {
            query?: {
                since?: components["schemas"]["Since"];
            };
            path: {
                id: string;
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["Changes"];
                };
            };
        };
    };
    changes_archive: {
        parameters: {
            query?: {
                since?: components["schemas"]["Since"];
            };
            path: {
                id: string;
            };
        };
        responses: {
            200: {
                content: {
                    "application/x-tar": number[];
                };
            };
        };
    };
    changes_patch: {
        parameters: {
            query?: {
                since?: components["schemas"]["Since"];
            };
            path: {
                id: string;
            };
        };
        responses: {
            200: {
                content: {
                    "text/x-diff": string;
                };
            };
        };
    };
    run_code: {
        parameters: {
            path: {
                id: string;
            };
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["RunCode"];
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["Exec"];
                    "application/x-ndjson": components["schemas"]["OutputEvent"];
                };
            };
            201: {
                content: {
                    "application/json": components["schemas"]["Exec"];
                };
            };
        };
    };
    list_contexts: {
        parameters: {
            path: {
                id: string;
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["ContextList"];
                };
            };
        };
    };
    create_context: {
        parameters: {
            path: {
                id: string;
            };
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CreateContext"];
            };
        };
        responses: {
            201: {
                content: {
                    "application/json": components["schemas"]["Context"];
                };
            };
        };
    };
    get_context: {
        parameters: {
            path: {
                context: string;
                id: string;
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["Context"];
                };
            };
        };
    };
    delete_context: {
        parameters: {
            path: {
                context: string;
                id: string;
            };
        };
        responses: {
            204: {
            };
        };
    };
    interrupt_context: {
        parameters: {
            path: {
                context: string;
                id: string;
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["Interrupted"];
                };
            };
        };
    };
    restart_context: {
        parameters: {
            path: {
                context: string;
                id: string;
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["Context"];
                };
            };
        };
    };
    list_execs: {
        parameters: {
            path: {
                id: string;
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["ExecList"];
                };
            };
        };
    };
    start_exec: {
        parameters: {
            path: {
                id: string;
            };
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["StartExec"];
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["Exec"];
                };
            };
            201: {
                content: {
                    "application/json": components["schemas"]["Exec"];
                };
            };
        };
    };
    get_exec: {
        parameters: {
            path: {
                exec: number;
                id: string;
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["Exec"];
                };
            };
        };
    };
    kill_exec: {
        parameters: {
            path: {
                exec: number;
                id: string;
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["Exec"];
                };
            };
        };
    };
    exec_output: {
        parameters: {
            query?: {
                follow?: boolean;
                results_offset?: number;
                stderr_offset?: number;
                stdout_offset?: number;
            };
            path: {
                exec: number;
                id: string;
            };
        };
        responses: {
            200: {
                content: {
                    "application/x-ndjson": components["schemas"]["OutputEvent"];
                };
            };
        };
    };
    resize_exec: {
        parameters: {
            path: {
                exec: number;
                id: string;
            };
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["TerminalSize"];
            };
        };
        responses: {
            204: {
            };
        };
    };
    signal_exec: {
        parameters: {
            path: {
                exec: number;
                id: string;
            };
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SignalExec"];
            };
        };
        responses: {
            204: {
            };
        };
    };
    exec_stderr: {
        parameters: {
            query?: {
                follow?: boolean;
                offset?: number;
            };
            path: {
                exec: number;
                id: string;
            };
        };
        responses: {
            200: {
                content: {
                    "application/octet-stream": number[];
                };
            };
            206: {
                content: {
                    "application/octet-stream": number[];
                };
            };
        };
    };
    exec_stdin: {
        parameters: {
            query?: {
                close?: boolean;
                offset?: number;
            };
            path: {
                exec: number;
                id: string;
            };
        };
        requestBody: {
            content: {
                "application/octet-stream": number[];
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["StdinReceived"];
                };
            };
        };
    };
    exec_stdout: {
        parameters: {
            query?: {
                follow?: boolean;
                offset?: number;
            };
            path: {
                exec: number;
                id: string;
            };
        };
        responses: {
            200: {
                content: {
                    "application/octet-stream": number[];
                };
            };
            206: {
                content: {
                    "application/octet-stream": number[];
                };
            };
        };
    };
    wait_exec: {
        parameters: {
            query?: {
                timeout_seconds?: number;
            };
            path: {
                exec: number;
                id: string;
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["Exec"];
                };
            };
        };
    };
    extend_sandbox: {
        parameters: {
            path: {
                id: string;
            };
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Extend"];
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["Sandbox"];
                };
            };
        };
    };
    list_files: {
        parameters: {
            query: {
                cursor?: string;
                limit?: number;
                path: string;
                recursive?: boolean;
                user?: string;
            };
            path: {
                id: string;
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["FilePage"];
                };
            };
        };
    };
    delete_file: {
        parameters: {
            query: {
                path: string;
                recursive?: boolean;
                user?: string;
            };
            path: {
                id: string;
            };
        };
        responses: {
            204: {
            };
        };
    };
    download_archive: {
        parameters: {
            query: {
                path: string;
                user?: string;
            };
            path: {
                id: string;
            };
        };
        responses: {
            200: {
                content: {
                    "application/x-tar": number[];
                };
            };
        };
    };
    upload_archive: {
        parameters: {
            query: {
                path: string;
                user?: string;
            };
            path: {
                id: string;
            };
        };
        requestBody: {
            content: {
                "application/x-tar": number[];
            };
        };
        responses: {
            204: {
            };
        };
    };
    read_file: {
        parameters: {
            query: {
                length?: number;
                offset?: number;
                path: string;
                user?: string;
            };
            path: {
                id: string;
            };
        };
        responses: {
            200: {
                content: {
                    "application/octet-stream": number[];
                };
            };
        };
    };
    write_file: {
        parameters: {
            query: {
                attributes?: string;
                follow_links?: boolean;
                mode?: string;
                parents?: boolean;
                path: string;
                user?: string;
            };
            path: {
                id: string;
            };
        };
        requestBody: {
            content: {
                "application/octet-stream": number[];
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["FileEntry"];
                };
            };
        };
    };
    make_directory: {
        parameters: {
            query?: {
                user?: string;
            };
            path: {
                id: string;
            };
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["MakeDirectory"];
            };
        };
        responses: {
            201: {
                content: {
                    "application/json": components["schemas"]["FileEntry"];
                };
            };
        };
    };
    file_exists: {
        parameters: {
            query: {
                path: string;
                user?: string;
            };
            path: {
                id: string;
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["Existence"];
                };
            };
        };
    };
    change_mode: {
        parameters: {
            query?: {
                user?: string;
            };
            path: {
                id: string;
            };
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ChangeMode"];
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["FileEntry"];
                };
            };
        };
    };
    move_file: {
        parameters: {
            query?: {
                user?: string;
            };
            path: {
                id: string;
            };
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["MoveFile"];
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["FileEntry"];
                };
            };
        };
    };
    resolve_path: {
        parameters: {
            query: {
                path: string;
                user?: string;
            };
            path: {
                id: string;
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["ResolvedPath"];
                };
            };
        };
    };
    sign_path: {
        parameters: {
            path: {
                id: string;
            };
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SignPath"];
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["SignedUrl"];
                };
            };
        };
    };
    stat_file: {
        parameters: {
            query: {
                path: string;
                user?: string;
            };
            path: {
                id: string;
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["FileEntry"];
                };
            };
        };
    };
    watch_files: {
        parameters: {
            query: {
                path: string;
                recursive?: boolean;
                user?: string;
            };
            path: {
                id: string;
            };
        };
        responses: {
            200: {
                content: {
                    "application/x-ndjson": components["schemas"]["FileEvent"];
                };
            };
        };
    };
    fork_sandbox: {
        parameters: {
            path: {
                id: string;
            };
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["Fork"] | null;
            };
        };
        responses: {
            201: {
                content: {
                    "application/json": components["schemas"]["Forked"];
                };
            };
        };
    };
    hibernate_sandbox: {
        parameters: {
            path: {
                id: string;
            };
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["Hibernate"] | null;
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["Sandbox"];
                };
            };
        };
    };
    merge_changes: {
        parameters: {
            path: {
                id: string;
            };
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["MergeRequest"];
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["MergeReport"];
                };
            };
        };
    };
    sandbox_metrics: {
        parameters: {
            query?: {
                end_ms?: number;
                start_ms?: number;
            };
            path: {
                id: string;
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["SandboxMetrics"];
                };
            };
        };
    };
    get_network: {
        parameters: {
            query?: {
                after?: number;
                wait_seconds?: number;
            };
            path: {
                id: string;
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["NetworkView"];
                };
            };
        };
    };
    pause_sandbox: {
        parameters: {
            path: {
                id: string;
            };
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["Pause"] | null;
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["Sandbox"];
                };
            };
        };
    };
    through_port_get: {
        parameters: {
            path: {
                id: string;
                path: string;
                port: number;
            };
        };
        responses: never;
    };
    through_port_put: {
        parameters: {
            path: {
                id: string;
                path: string;
                port: number;
            };
        };
        responses: never;
    };
    through_port_post: {
        parameters: {
            path: {
                id: string;
                path: string;
                port: number;
            };
        };
        responses: never;
    };
    through_port_delete: {
        parameters: {
            path: {
                id: string;
                path: string;
                port: number;
            };
        };
        responses: never;
    };
    through_port_options: {
        parameters: {
            path: {
                id: string;
                path: string;
                port: number;
            };
        };
        responses: never;
    };
    through_port_head: {
        parameters: {
            path: {
                id: string;
                path: string;
                port: number;
            };
        };
        responses: never;
    };
    through_port_patch: {
        parameters: {
            path: {
                id: string;
                path: string;
                port: number;
            };
        };
        responses: never;
    };
    sign_port: {
        parameters: {
            path: {
                id: string;
            };
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SignPort"];
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["SignedPort"];
                };
            };
        };
    };
    resume_sandbox: {
        parameters: {
            path: {
                id: string;
            };
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["Resume"] | null;
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["Sandbox"];
                };
            };
        };
    };
    create_snapshot: {
        parameters: {
            path: {
                id: string;
            };
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["CreateSnapshot"] | null;
            };
        };
        responses: {
            201: {
                content: {
                    "application/json": components["schemas"]["Snapshot"];
                };
            };
        };
    };
    sandbox_usage: {
        parameters: {
            path: {
                id: string;
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["SandboxUsage"];
                };
            };
        };
    };
    checkpoint_volume: {
        parameters: {
            path: {
                id: string;
                volume: string;
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["MountedVolume"];
                };
            };
        };
    };
    wake_sandbox: {
        parameters: {
            path: {
                id: string;
            };
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["Resume"] | null;
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["Sandbox"];
                };
            };
        };
    };
    list_secrets: {
        parameters: {
            query?: {
                cursor?: string;
                limit?: number;
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["SecretPage"];
                };
            };
        };
    };
    create_secret: {
        parameters: {
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CreateSecret"];
            };
        };
        responses: {
            201: {
                content: {
                    "application/json": components["schemas"]["Secret"];
                };
            };
        };
    };
    get_secret: {
        parameters: {
            path: {
                secret: string;
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["Secret"];
                };
            };
        };
    };
    update_secret: {
        parameters: {
            path: {
                secret: string;
            };
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["UpdateSecret"];
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["Secret"];
                };
            };
        };
    };
    remove_secret: {
        parameters: {
            path: {
                secret: string;
            };
        };
        responses: {
            204: {
            };
        };
    };
    server_status: {
        parameters: {
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["ServerStatus"];
                };
            };
        };
    };
    server_load: {
        parameters: {
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["ServerLoad"];
                };
            };
        };
    };
    stop_server: {
        parameters: {
        };
        responses: {
            202: {
            };
        };
    };
    sign_in: {
        parameters: {
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SignIn"];
            };
        };
        responses: {
            201: {
                content: {
                    "application/json": components["schemas"]["CreatedToken"];
                };
            };
        };
    };
    create_sign_in_code: {
        parameters: {
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CreateSignInCode"];
            };
        };
        responses: {
            201: {
                content: {
                    "application/json": components["schemas"]["SignInCode"];
                };
            };
        };
    };
    read_signed: {
        parameters: {
            path: {
                token: string;
            };
        };
        responses: {
            200: {
                content: {
                    "application/octet-stream": number[];
                };
            };
        };
    };
    write_signed: {
        parameters: {
            path: {
                token: string;
            };
        };
        requestBody: {
            content: {
                "application/octet-stream": number[];
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["FileEntry"];
                };
            };
        };
    };
    list_snapshots: {
        parameters: {
            query?: {
                cursor?: string;
                limit?: number;
                name?: string;
                sandbox?: string;
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["SnapshotPage"];
                };
            };
        };
    };
    get_snapshot: {
        parameters: {
            path: {
                snapshot: string;
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["Snapshot"];
                };
            };
        };
    };
    delete_snapshot: {
        parameters: {
            path: {
                snapshot: string;
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["Snapshot"];
                };
            };
        };
    };
    list_template_builds: {
        parameters: {
            query?: {
                cursor?: string;
                limit?: number;
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["TemplateBuildPage"];
                };
            };
        };
    };
    build_template: {
        parameters: {
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["BuildTemplate"];
            };
        };
        responses: {
            202: {
                content: {
                    "application/json": components["schemas"]["TemplateBuild"];
                };
            };
        };
    };
    get_template_build: {
        parameters: {
            path: {
                build: string;
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["TemplateBuild"];
                };
            };
        };
    };
    template_build_log: {
        parameters: {
            query?: {
                level?: components["schemas"]["LogLevel"];
                limit?: number;
                offset?: number;
            };
            path: {
                build: string;
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["BuildLog"];
                };
            };
        };
    };
    upload_template_files: {
        parameters: {
            path: {
                hash: string;
            };
        };
        requestBody: {
            content: {
                "application/octet-stream": number[];
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["TemplateFiles"];
                };
            };
        };
    };
    list_templates: {
        parameters: {
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["TemplateList"];
                };
            };
        };
    };
    get_template: {
        parameters: {
            path: {
                template: string;
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["Template"];
                };
            };
        };
    };
    delete_template: {
        parameters: {
            path: {
                template: string;
            };
        };
        responses: {
            204: {
            };
        };
    };
    set_template_tag: {
        parameters: {
            path: {
                tag: string;
                template: string;
            };
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SetTag"];
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["Template"];
                };
            };
        };
    };
    remove_template_tag: {
        parameters: {
            path: {
                tag: string;
                template: string;
            };
        };
        responses: {
            204: {
            };
        };
    };
    list_tenants: {
        parameters: {
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["TenantList"];
                };
            };
        };
    };
    set_quota: {
        parameters: {
            path: {
                tenant: string;
            };
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Quota"];
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["Tenant"];
                };
            };
        };
    };
    revoke_tokens: {
        parameters: {
            path: {
                tenant: string;
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["TokenList"];
                };
            };
        };
    };
    list_tokens: {
        parameters: {
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["TokenList"];
                };
            };
        };
    };
    create_token: {
        parameters: {
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CreateToken"];
            };
        };
        responses: {
            201: {
                content: {
                    "application/json": components["schemas"]["CreatedToken"];
                };
            };
        };
    };
    revoke_token: {
        parameters: {
            path: {
                token: string;
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["Token"];
                };
            };
        };
    };
    update_token: {
        parameters: {
            path: {
                token: string;
            };
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["UpdateToken"];
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["Token"];
                };
            };
        };
    };
    last_verify: {
        parameters: {
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["VerifyResults"];
                };
            };
        };
    };
    list_volumes: {
        parameters: {
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["VolumeList"];
                };
            };
        };
    };
    create_volume: {
        parameters: {
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CreateVolume"];
            };
        };
        responses: {
            201: {
                content: {
                    "application/json": components["schemas"]["Volume"];
                };
            };
        };
    };
    get_volume: {
        parameters: {
            query?: {
                tenant?: string;
            };
            path: {
                volume: string;
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["Volume"];
                };
            };
        };
    };
    remove_volume: {
        parameters: {
            query?: {
                tenant?: string;
            };
            path: {
                volume: string;
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["Volume"];
                };
            };
        };
    };
    volume_files: {
        parameters: {
            query?: {
                depth?: number;
                live?: boolean;
                path?: string;
                tenant?: string;
                version?: number;
            };
            path: {
                volume: string;
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["VolumeFiles"];
                };
            };
        };
    };
    delete_volume_file: {
        parameters: {
            query: {
                live?: boolean;
                path: string;
                tenant?: string;
            };
            path: {
                volume: string;
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["VolumeVersion"];
                };
            };
        };
    };
    read_volume_file: {
        parameters: {
            query: {
                live?: boolean;
                path: string;
                tenant?: string;
                version?: number;
            };
            path: {
                volume: string;
            };
        };
        responses: {
            200: {
                content: {
                    "application/octet-stream": number[];
                };
            };
        };
    };
    write_volume_file: {
        parameters: {
            query: {
                live?: boolean;
                mode?: string;
                path: string;
                tenant?: string;
            };
            path: {
                volume: string;
            };
        };
        requestBody: {
            content: {
                "application/octet-stream": number[];
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["VolumeVersion"];
                };
            };
        };
    };
    make_volume_directory: {
        parameters: {
            query?: {
                live?: boolean;
                tenant?: string;
            };
            path: {
                volume: string;
            };
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["MakeDirectory"];
            };
        };
        responses: {
            201: {
                content: {
                    "application/json": components["schemas"]["VolumeVersion"];
                };
            };
        };
    };
    change_volume_mode: {
        parameters: {
            query?: {
                live?: boolean;
                tenant?: string;
            };
            path: {
                volume: string;
            };
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ChangeMode"];
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["VolumeVersion"];
                };
            };
        };
    };
    stat_volume_file: {
        parameters: {
            query: {
                live?: boolean;
                path: string;
                tenant?: string;
                version?: number;
            };
            path: {
                volume: string;
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["VolumeFile"];
                };
            };
        };
    };
    volume_history: {
        parameters: {
            query?: {
                tenant?: string;
            };
            path: {
                volume: string;
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["VolumeHistory"];
                };
            };
        };
    };
    restore_volume: {
        parameters: {
            query?: {
                tenant?: string;
            };
            path: {
                volume: string;
            };
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["RestoreVolume"];
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["VolumeVersion"];
                };
            };
        };
    };
    share_volume: {
        parameters: {
            query?: {
                tenant?: string;
            };
            path: {
                volume: string;
            };
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ShareVolume"];
            };
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["Volume"];
                };
            };
        };
    };
    who_am_i: {
        parameters: {
        };
        responses: {
            200: {
                content: {
                    "application/json": components["schemas"]["WhoAmI"];
                };
            };
        };
    };
}
