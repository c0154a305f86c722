this file is broken on purpose: the registry must list it with its error
