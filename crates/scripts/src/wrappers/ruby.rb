# Calls main of a script with its arguments, and writes down what it returned. Runs inside, beside the script: nothing
# that it says is trusted outside.
require "fileutils"
require "json"

class PaddockRefused < StandardError
  attr_reader :code

  def initialize(code, message)
    super(message)
    @code = code
  end
end

module PaddockScript
  module_function

  def run(call)
    FileUtils.mkdir_p(File.dirname(call["script"]))
    File.write(call["script"], call["source"])
    answer = begin
      { "result" => plain(outcome(call), "$") }
    rescue PaddockRefused => refused
      { "error" => { "code" => refused.code, "message" => refused.message } }
    rescue SystemExit => left
      if left.success?
        { "error" => { "code" => "no_result", "message" => "the script ended itself before main returned" } }
      else
        message = "the script ended itself with exit code #{left.status}"
        conclude(call, { "error" => { "code" => "script_failed", "message" => message } }, left.status)
      end
    rescue Exception => error # rubocop:disable Lint/RescueException
      warn error.full_message(highlight: false)
      { "error" => { "code" => "script_failed", "name" => error.class.name, "message" => error.message.to_s[0, 4000] } }
    end
    conclude(call, answer, answer.key?("error") ? 1 : 0)
  end

  def outcome(call)
    $LOAD_PATH.unshift(Dir.pwd)
    load(call["script"])
    name = call["main"].to_sym
    main = Object.new.method(name) if Object.private_method_defined?(name) || Object.method_defined?(name)
    raise PaddockRefused.new("no_main", "the script has no method #{name}: write `def #{name}(...)`") unless main

    positional, named = fitting(main.parameters, bound(call))
    named.empty? ? main.call(*positional) : main.call(*positional, **named)
  end

  # Values that never enter: their placeholders are put where the arguments have them.
  def bound(call)
    call["secrets"].each do |place, variable|
      *steps, last = place.split("/")[1..].map { |step| step.gsub("~1", "/").gsub("~0", "~") }
      index = ->(inside, step) { inside.is_a?(Array) ? step.to_i : step }
      inside = steps.reduce(call["args"]) { |found, step| found[index.call(found, step)] }
      inside[index.call(inside, last)] = ENV.fetch(variable)
    end
    call["args"]
  end

  def fitting(parameters, given)
    names = parameters.select { |kind, _| %i[req opt key keyreq].include?(kind) }.map { |_, name| name.to_s }
    known = names.empty? ? "none" : names.join(", ")
    unknown = given.keys - names
    if unknown.any? && parameters.none? { |kind, _| kind == :keyrest }
      raise PaddockRefused.new("arguments_do_not_fit", "main has no parameter `#{unknown[0]}`; its parameters are: #{known}")
    end
    positional = []
    left_out = nil
    named = unknown.to_h { |name| [name.to_sym, given[name]] }
    parameters.each do |kind, name|
      text = name.to_s
      if %i[req keyreq].include?(kind) && !given.key?(text)
        raise PaddockRefused.new("arguments_do_not_fit", "argument `#{text}` is missing; main's parameters are: #{known}")
      end
      next left_out ||= text if kind == :opt && !given.key?(text)
      next unless given.key?(text)

      named[name] = given[text] if %i[key keyreq].include?(kind)
      next unless %i[req opt].include?(kind)
      if kind == :opt && left_out
        message = "argument `#{text}` stands behind `#{left_out}`, which is not given: give both"
        raise PaddockRefused.new("arguments_do_not_fit", message)
      end
      positional << given[text]
    end
    [positional, named]
  end

  # The result as JSON has it, or where it is something else.
  def plain(value, where, above = [])
    case value
    when nil, true, false, Integer then value
    when Symbol then value.to_s
    when String
      text = value.encode("UTF-8") rescue nil
      raise not_json(where, "bytes that are no text; return base64 text") unless text&.valid_encoding?
      text
    when Float
      raise not_json(where, "#{value}, which JSON has no number for") unless value.finite?
      value
    when Array, Hash
      raise not_json(where, "a reference to itself") if above.any? { |one| one.equal?(value) }
      inner = above + [value]
      if value.is_a?(Array)
        value.each_with_index.map { |one, number| plain(one, "#{where}[#{number}]", inner) }
      else
        value.to_h { |name, one| [name.to_s, plain(one, "#{where}.#{name}", inner)] }
      end
    when Time then value.strftime("%Y-%m-%dT%H:%M:%S.%L%:z")
    else raise not_json(where, "a #{value.class}")
    end
  end

  def not_json(where, what)
    PaddockRefused.new("result_not_json", "the result is no JSON: at #{where} it has #{what}")
  end

  def conclude(call, answer, code)
    File.write(call["result"], JSON.generate(answer, max_nesting: 0))
    $stdout.flush
    $stderr.flush
    exit!(code)
  end
end

PaddockScript.run(CALL)
