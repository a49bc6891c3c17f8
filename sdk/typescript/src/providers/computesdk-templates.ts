/** Templates of ComputeSDK: builds through the server. */

import type { ListTemplatesOptions, CreateTemplateOptions, ProviderConfig } from '@computesdk/provider'
import type { Client } from '../client.js'
import { PaddockError, UnsupportedError } from '../errors.js'
import { call, request, type Loose, type Schemas } from '../routes.js'
import { sleep } from '../retrying.js'

/** How a template is built: from an image of a registry, or from another template. */
export interface PaddockTemplateOptions extends CreateTemplateOptions {
  image?: string | undefined
  template?: string | undefined
  /** Lines for the shell, one after the other. */
  commands?: readonly string[] | undefined
  signal?: AbortSignal | undefined
}

export interface ComputeTemplate {
  /** For `templateId` of a create. */
  readonly id: string
  readonly name: string
  readonly provider: 'paddock'
}

const ASKED_EVERY_MS = 500

type Methods<Config> = NonNullable<ProviderConfig<unknown, Config, ComputeTemplate>['methods']['template']>

export function templatesOf<Config>(clientOf: (config: Config) => Client): Methods<Config> {
  return {
    create: async (config, options) => create(clientOf(config), options),
    async list(config, options: ListTemplatesOptions = {}) {
      const all = (await clientOf(config).templates()).map(templateOf)
      return options.limit === undefined ? all : all.slice(0, options.limit)
    },
    async delete(config, id) {
      await request(clientOf(config), 'DELETE /v1/templates/{template}', { at: { template: id } })
    },
  }
}

async function create(client: Client, options: PaddockTemplateOptions): Promise<ComputeTemplate> {
  const { name, image, template, commands = [], signal } = options
  if (options.description !== undefined || options.metadata !== undefined) {
    throw new UnsupportedError('a template of Paddock has no description and no metadata', { hint: 'leave both out; the name says what it is' })
  }
  if ((image === undefined) === (template === undefined)) {
    throw new UnsupportedError(`the template ${name} has nothing to begin with`, { hint: 'name either an `image` of a registry or another `template`' })
  }
  const steps = commands.map((command): Loose<Schemas['BuildStep']> => ({ kind: 'run', command }))
  let build = await call(client, 'POST /v1/template-builds', { json: { name, image, template, steps }, signal })
  while (build.state === 'waiting' || build.state === 'building') {
    await sleep(ASKED_EVERY_MS, signal)
    build = await call(client, 'GET /v1/template-builds/{build}', { at: { build: build.id }, signal })
  }
  if (build.state !== 'ready') {
    throw new PaddockError(`the template ${name} could not be built: ${build.failure?.message ?? 'it was not said why'}`, {
      code: 'build_failed', hint: `its log is at /v1/template-builds/${build.id}/log`,
    })
  }
  return templateOf(name)
}

function templateOf(name: string): ComputeTemplate {
  return { id: name, name, provider: 'paddock' }
}
