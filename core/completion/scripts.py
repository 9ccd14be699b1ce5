"""The scripts with which shells complete a word: each sends what is typed, and shows what comes back.

They send it on standard input, parted by NUL: other users can read neither the command line nor a variable.
`core.completion.answer` answers. Each script reads lines and evaluates none of them.
"""

from __future__ import annotations

from enum import StrEnum


class Shell(StrEnum):
    """The shells for which there is a script."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


VARIABLE = "_QUARTERDECK_COMPLETE"
"""Set by a script in the environment of the program that it asks, to the name of the shell."""

_BASH = r"""
_quarterdeck_completion() {
    local answer
    COMPREPLY=()
    {
        IFS= read -r answer || return 0
        [[ $answer == nospace ]] && compopt -o nospace 2>/dev/null
        while IFS= read -r answer; do
            COMPREPLY+=("$answer")
        done
    } < <(printf '%s\0' "${COMP_LINE:0:COMP_POINT}" "$COMP_WORDBREAKS" |
        _QUARTERDECK_COMPLETE=bash "$1" 2>/dev/null)
}

complete -o nosort -F _quarterdeck_completion quarterdeck 2>/dev/null ||
    complete -F _quarterdeck_completion quarterdeck
"""

_ZSH = r"""
#compdef quarterdeck

_quarterdeck() {
    local kind value help home=''
    local -a closed open
    # A quoted ~ is no folder, so that it stays before the part that is completed.
    [[ $PREFIX == '~/'* ]] && home='~/'
    while IFS=$'\t' read -r kind value help; do
        value=${value#$home}
        value=${value//\\/\\\\}
        value=${value//:/\\:}
        if [[ $kind == open ]]; then
            open+=("$value${help:+:$help}")
        else
            closed+=("$value${help:+:$help}")
        fi
    done < <(printf '%s\0' "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" |
        _QUARTERDECK_COMPLETE=zsh "${(Q)words[1]}" 2>/dev/null)
    [[ -n $home ]] && compset -P '\~/'
    (( $#closed )) && _describe -V 'quarterdeck' closed
    (( $#open )) && _describe -V 'quarterdeck' open -S ''
    (( $#closed + $#open ))
}

if [[ ${funcstack[1]-} == _quarterdeck ]]; then
    _quarterdeck "$@"
else
    compdef _quarterdeck quarterdeck
fi
"""

_FISH = r"""
function __quarterdeck_complete
    set -l words (commandline -opc)
    set -l typed (commandline -ct)
    set -l plain (string unescape -- $typed; or string replace -r -- '^["\']' '' $typed)
    printf '%s\0' $words[2..-1] "$plain" | _QUARTERDECK_COMPLETE=fish $words[1] 2>/dev/null
end

complete -c quarterdeck -f -k -a '(__quarterdeck_complete)'
"""

SCRIPTS = {Shell.BASH: _BASH.lstrip(), Shell.ZSH: _ZSH.lstrip(), Shell.FISH: _FISH.lstrip()}
