# Sourced by inside.sh: sandboxes of the microVM tier, with KVM.
# shellcheck shell=sh disable=SC2016,SC2015,SC2154,SC2034

in_vm() { carrel exec vm -- sh -c "$1"; }
vm_state_is() { carrel inspect vm | grep -qx "state  *$1"; }

# The daemon boots a guest with KVM before it offers the tier.
kvm_is_used() {
	until_ok 240 carrel create --tier microvm --name vm || {
		carrel doctor
		return 1
	}
	in_vm 'echo kept > state' && pgrep -f -- '-accel kvm'
}

# A process that counts, in memory: only who kept memory goes on counting.
vm_start_counting() {
	carrel exec -d vm -- sh -c 'n=0; while :; do n=$((n + 1)); echo $n >/tmp/n; sleep 0.1; done'
	until_ok 40 in_vm 'test -s /tmp/n'
}
vm_count() { in_vm "cat /tmp/n"; }
vm_counts_on() { # FROM [NAME]
	until_ok 60 sh -c "[ \"\$(carrel exec ${2:-vm} -- cat /tmp/n)\" -gt $1 ]"
}

vm_pause() {
	vm_start_counting && before=$(vm_count) && carrel pause vm &&
		{ vm_state_is paused || vm_state_is suspended; } || return 1
	is kept "$(in_vm 'cat state')" && vm_state_is running && vm_counts_on "$before"
}
vm_pause_disk_only() {
	in_vm 'echo on disk > state; sync' && carrel pause --disk-only vm &&
		vm_state_is suspended && is "on disk" "$(in_vm 'cat state')" &&
		! in_vm 'pidof sleep'
}
vm_move() {
	carrel move vm --tier container && is "on disk" "$(in_vm 'cat state')" &&
		is "$(uname -r)" "$(in_vm 'uname -r')" &&
		carrel move vm --tier microvm && is "on disk" "$(in_vm 'cat state')"
}
vm_idle() {
	carrel create --tier microvm --name idle --idle-timeout 5s --idle-action pause &&
		carrel exec idle -- sh -c 'echo idle > state' || return 1
	until_ok 120 sh -c "carrel inspect idle | grep -qE '^state  *(paused|suspended)'" &&
		is idle "$(carrel exec idle -- cat state)" && carrel rm idle
}
vm_timeout() {
	carrel create --tier microvm --name late --timeout 20s --timeout-action pause &&
		carrel exec late -- sh -c 'echo late > state' || return 1
	until_ok 240 sh -c "carrel inspect late | grep -qE '^state  *(paused|suspended)'" &&
		carrel rm late
}
vm_snapshot() {
	vm_start_counting && before=$(vm_count) && carrel snapshot vm vm-point &&
		in_vm 'echo changed > state' && carrel rollback vm vm-point &&
		is "on disk" "$(in_vm 'cat state')" && vm_counts_on "$before"
}
vm_fork() {
	before=$(vm_count) && carrel fork vm --name vm-twin && vm_counts_on "$before" vm-twin &&
		is "on disk" "$(carrel exec vm-twin -- cat state)" && carrel rm vm-twin
}
vm_sudo() { is 0 "$(in_vm 'sudo id -u')"; }
vm_terminal() {
	is 5 "$(echo 'stty size >/dev/null && exit 5' |
		script -qec 'carrel exec -t vm -- sh' /dev/null >/dev/null 2>&1; echo $?)"
}
vm_gate() {
	serve_page || return 1
	carrel create --tier microvm --name vmgate --rule 'allow GET http://203.0.113.10:8080/page' &&
		is served "$(get vmgate page)" && is served "$(get vmgate page env -i)" || return 1
	case $(get vmgate other) in *403*) ;; *) return 1 ;; esac
	carrel rm vmgate && systemctl stop web
}
vm_restart() {
	before=$(vm_count) && systemctl restart carrel.service && until_ok 120 carrel ls &&
		vm_counts_on "$before"
}

t "microVM: KVM is used" kvm_is_used
t "microVM: pause keeps processes" vm_pause
t "microVM: disk-only pause" vm_pause_disk_only
t "microVM: move to a container and back" vm_move
t "microVM: idle action" vm_idle
t "microVM: timeout action" vm_timeout
t "microVM: sudo" vm_sudo
t "microVM: terminal" vm_terminal
t "microVM: snapshot with memory, rollback" vm_snapshot
t "microVM: fork goes on" vm_fork
t "microVM: gate" vm_gate
t "microVM: daemon restart" vm_restart
t "microVM: rm" carrel rm vm
t "microVM: snapshot rm" carrel snapshot rm vm-point
