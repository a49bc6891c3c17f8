/**
 * Requests by the routes of spec/openapi.json. tsc refuses a route, a query parameter or a field of a body that the specification
 * does not have, as long as `query` and `json` are written where the request is made. Everything in this package asks by these.
 */

import type { Answer, Client, Query, RequestOptions } from './client.js'
import type { components, paths } from './generated/openapi.js'
import { segment } from './segment.js'
import type { WireAnswer } from './wire.js'

export type Schemas = components['schemas']

type Method = 'GET' | 'PUT' | 'POST' | 'DELETE' | 'PATCH'
type RoutesOf<M extends Method> = { [P in keyof paths]: Lowercase<M> extends keyof paths[P] ? `${M} ${P}` : never }[keyof paths]

/** `GET /v1/jobs/{job}`, ... */
export type Route = { [M in Method]: RoutesOf<M> }[Method]

type Operation<R extends Route> = R extends `${infer M extends Method} ${infer P extends keyof paths}`
  ? Lowercase<M> extends keyof paths[P] ? paths[P][Lowercase<M>] : never
  : never
type Nothing = Record<never, never>
type PlaceOf<O> = O extends { parameters: { path: infer Names } } ? { at: { readonly [N in keyof Names]: string | number } } : Nothing
type Queries<O> = O extends { parameters: { query: infer Q } }
  ? { query: Loose<Q> }
  : O extends { parameters: { query?: infer Q } } ? { query?: Loose<NonNullable<Q>> | undefined } : Nothing
type JsonOf<O> = O extends { requestBody: { content: { 'application/json': infer B } } }
  ? { json: Loose<NonNullable<B>> }
  : O extends { requestBody?: { content: { 'application/json': infer B } } } ? { json?: Loose<NonNullable<B>> | undefined } : Nothing
type Contents<O> = O extends { responses: infer Answers } ? Answers[keyof Answers] : never
type Json<C> = C extends { content: { 'application/json': infer Body } } ? Body : never

/** The body of a success. */
export type AnswerOf<R extends Route> = Json<Contents<Operation<R>>>

/** The parameters after the question mark. */
export type QueryOf<R extends Route> = NonNullable<Asked<R> extends { query?: infer Q } ? Q : never>

/** Values that callers hand in: not to be written to, and undefined where an option is not there. */
export type Loose<T> = T extends readonly (infer E)[]
  ? readonly Loose<E>[]
  : T extends object ? { readonly [K in keyof T]: Nothing extends Pick<T, K> ? Loose<T[K]> | undefined : Loose<T[K]> } : T

/** `at` names what stands in the braces of the route. */
export type Asked<R extends Route> = R extends Route ? AskedOf<Operation<R>> : never
type AskedOf<O> = Omit<RequestOptions, 'query' | 'json'> & PlaceOf<O> & Queries<O> & JsonOf<O>

type Lists<Page> = { [K in keyof Page]: Page[K] extends readonly unknown[] ? K : never }[keyof Page] & string
type ItemOf<Page, K extends keyof Page> = Page[K] extends readonly (infer E)[] ? E : never

/** The JSON of an answer. */
export async function call<R extends Route>(client: Client, route: R, asked: Asked<R>): Promise<AnswerOf<R>>
export async function call(client: Client, route: Route, asked: object): Promise<unknown> {
  const { method, path, options } = sent(route, asked)
  return client.call(method, path, options)
}

/** An answer without JSON. */
export async function request<R extends Route>(client: Client, route: R, asked: Asked<R>): Promise<Answer>
export async function request(client: Client, route: Route, asked: object): Promise<Answer> {
  const { method, path, options } = sent(route, asked)
  return client.request(method, path, options)
}

/** An answer that is read piece by piece. */
export async function open<R extends Route>(client: Client, route: R, asked: Asked<R>): Promise<WireAnswer>
export async function open(client: Client, route: Route, asked: object): Promise<WireAnswer> {
  const { method, path, options } = sent(route, asked)
  return client.open(path, { ...options, method })
}

/** Lines of JSON. */
export function lines<R extends RoutesOf<'GET'>>(client: Client, route: R, asked: Asked<R>): AsyncGenerator<Uint8Array>
export function lines(client: Client, route: Route, asked: object): AsyncGenerator<Uint8Array> {
  const { path, options } = sent(route, asked)
  return client.lines(path, options)
}

/** All items of a list, page after page. */
export function pages<R extends RoutesOf<'GET'>, K extends Lists<AnswerOf<R>>>(
  client: Client, route: R, name: K, asked: Asked<R>,
): AsyncGenerator<ItemOf<AnswerOf<R>, K>>
export function pages(client: Client, route: Route, name: string, asked: object): AsyncGenerator<unknown> {
  const { path, options } = sent(route, asked)
  return client.pages(path, name, options.query ?? {}, options)
}

function sent(route: Route, asked: object): { method: string; path: string; options: RequestOptions } {
  const { at = {}, query, ...options } = asked as RequestOptions & { at?: Record<string, string | number>; query?: Query | undefined }
  const space = route.indexOf(' ')
  const path = route.slice(space + 1).replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = at[name]
    return segment(typeof value === 'number' ? String(value) : (value as string))
  })
  return { method: route.slice(0, space), path, options: { ...options, query } }
}
