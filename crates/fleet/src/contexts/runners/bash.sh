# The runner of bash contexts: one shell that stays. It shares its process with the code that it runs, so that nothing
# here is a fence. Names of its own begin with __paddock.
__paddock_control=$PADDOCK_CONTROL
unset PADDOCK_CONTROL n s
exec {__paddock_out}>&1 {__paddock_err}>&2
__paddock_shell=$BASHPID

# Sets __paddock_name and __paddock_value. Nothing but the host's going away fails here.
__paddock_read() {
  local length LC_ALL=C
  IFS=' ' read -r __paddock_name length <&"$__paddock_control" || exit 0
  __paddock_value=
  if ((length > 0)); then IFS= read -r -N "$length" __paddock_value <&"$__paddock_control" || exit 0; fi
  IFS= read -r -N 1 <&"$__paddock_control" || exit 0
}

# Interrupts are heeded while the code runs, and only then: a return from the trap leaves this function, whatever it is
# at. The code's own `return` leaves it, too.
__paddock_run() {
  trap 'return 130' INT
  eval "$__paddock_code"
}

# Its own names are those of the shell, which the code sees: each begins with __paddock.
__paddock_call() {
  local __paddock_count=$1 __paddock_each __paddock_back= __paddock_has_cwd= __paddock_status=0
  local -A __paddock_had=()
  local -a __paddock_added=()
  __paddock_code= __paddock_id= __paddock_stdin=/dev/null
  exec 0</dev/null 1>&"$__paddock_out" 2>&"$__paddock_err"
  while ((__paddock_count-- > 0)); do
    __paddock_read
    case $__paddock_name in
      call) __paddock_id=$__paddock_value ;;
      code) __paddock_code=$__paddock_value ;;
      cwd) __paddock_has_cwd=1 __paddock_back=$PWD __paddock_cwd=$__paddock_value ;;
      stdin)
        # A here-string adds a line end; a file that is gone at once does not.
        __paddock_stdin=${TMPDIR:-/tmp}/.paddock-stdin-$BASHPID
        (umask 077; set -C; printf %s "$__paddock_value" >"$__paddock_stdin") && exec 0<"$__paddock_stdin"
        rm -f -- "$__paddock_stdin"
        ;;
      env)
        __paddock_each=${__paddock_value%%=*}
        [[ $__paddock_each =~ ^[A-Za-z_][A-Za-z0-9_]*$ ]] || continue
        __paddock_added+=("$__paddock_each")
        [[ -n ${!__paddock_each+x} ]] && __paddock_had[$__paddock_each]=${!__paddock_each}
        export "$__paddock_each=${__paddock_value#*=}"
        ;;
    esac
  done
  __paddock_value=
  if [[ -n $__paddock_has_cwd ]] && ! cd -- "$__paddock_cwd"; then
    __paddock_status=1
  else
    __paddock_run
    __paddock_status=$?
  fi
  trap '' INT
  # A copy of the shell that came this far is not the context.
  [[ $BASHPID == "$__paddock_shell" ]] || exit "$__paddock_status"
  if [[ -n $__paddock_has_cwd ]]; then cd -- "$__paddock_back" 2>/dev/null; fi
  for __paddock_each in "${__paddock_added[@]}"; do
    if [[ -n ${__paddock_had[$__paddock_each]+x} ]]; then export "$__paddock_each=${__paddock_had[$__paddock_each]}"; else unset "$__paddock_each"; fi
  done
  local LC_ALL=C
  printf 'done 2\ncall %d\n%s\nexit_code %d\n%s\n' \
    "${#__paddock_id}" "$__paddock_id" "${#__paddock_status}" "$__paddock_status" >&"$__paddock_control"
}

trap '' INT
printf 'ready 1\nversion %d\n%s\n' "${#BASH_VERSION}" "$BASH_VERSION" >&"$__paddock_control"
while IFS=' ' read -r __paddock_kind __paddock_count <&"$__paddock_control"; do
  if [[ $__paddock_kind == run ]]; then
    __paddock_call "$__paddock_count"
  elif [[ $__paddock_kind == carried ]]; then
    # This is a copy, in another sandbox.
    while ((__paddock_count-- > 0)); do
      __paddock_read
      [[ $__paddock_name == seed ]] && RANDOM=$__paddock_value
    done
    __paddock_shell=$BASHPID
  else
    while ((__paddock_count-- > 0)); do __paddock_read; done
  fi
done
