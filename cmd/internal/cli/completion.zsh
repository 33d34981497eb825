#compdef forebay
# forebay completion for zsh: source <(forebay completion zsh), after compinit
_forebay() {
	local -a lines
	lines=("${(@f)$(${words[1]} __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
	lines=("${(@)lines//:/\\:}")
	lines=("${(@)lines/$'\t'/:}")
	if [[ -n ${lines[1]} ]]; then
		_describe forebay lines
	else
		_files
	fi
}
compdef _forebay forebay
