# Bash: each piece of code is evaluated here, so that variables, functions and
# the directory stay. See line_kernel.py for what is said over which descriptor.
trap ':' INT
_jq=$(type -P jq) # wherever code sets its PATH to

while IFS=' ' read -r -u 3 _length _nonce; do
	LC_ALL=C IFS= read -r -N "$_length" -u 3 _ask
	_code=$(printf '%s' "$_ask" | "$_jq" -j .code)
	_names=()
	_before=()
	while IFS= read -r -d '' _pair; do
		_name=${_pair%%=*}
		_names+=("$_name")
		_before+=("$(declare -p "$_name" 2> /dev/null)")
		export "${_pair?}"
	done < <(printf '%s' "$_ask" | "$_jq" -j '.env | to_entries[] | "\(.key)=\(.value)\u0000"')
	eval "$_code" 3<&- 4>&- < /dev/null
	_status=$?
	for _i in "${!_names[@]}"; do
		unset "${_names[_i]}"
		eval "${_before[_i]}"
	done 2> /dev/null
	if [ "$_status" -eq 0 ]; then
		echo '{"result": null}' >&4
	else
		printf '{"error": {"name": "ExitStatus", "value": "%d", "traceback": ""}}\n' \
			"$_status" >&4
	fi
	printf '\0%s' "$_nonce"
	printf '\0%s' "$_nonce" >&2
done
