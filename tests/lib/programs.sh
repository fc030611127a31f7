# Sourced: other people's programs, built or fetched once into a folder of the user's, at pinned versions. Each
# function says nothing where the program is there, and otherwise shows the end of its log and returns 1.

say_end() { # LOG
    tail -n 3 "$1" >&2
    return 1
}

go_program() { # FOLDER NAME PACKAGE VERSION [GO-OPTION…] : FOLDER/NAME
    local folder=$1 name=$2 package=$3 version=$4
    shift 4
    [ ! -x "$folder/$name" ] || return 0
    command -v go >/dev/null || { echo "no Go compiler" >&2 && return 1; }
    echo "building $name $version (some minutes, once) ..." >&2
    mkdir -p "$folder"
    GOBIN="$folder" GOFLAGS=-trimpath timeout 1800 go install "$@" "$package@$version" >"$folder/$name.log" 2>&1 || say_end "$folder/$name.log"
}

minio_program() { # FOLDER
    go_program "$1" minio github.com/minio/minio v0.0.0-20260212201848-7aac2a2c5b7c
}
