# forebay completion for fish: forebay completion fish | source
function __forebay_complete
	set -l words (commandline -opc)
	set -l last (commandline -ct)
	set -l found ($words[1] __complete $words[2..] "$last" 2>/dev/null)
	if set -q found[1]
		printf '%s\n' $found
	else
		__fish_complete_path "$last"
	end
end
complete -c forebay -k -f -a '(__forebay_complete)'
